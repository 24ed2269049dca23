/**
 * Secrets that no mount can name, or of which there are too many: they stay hidden, and nobody's commands stop for
 * it. Files from an agent or an unpacked archive must not keep other sessions from working in the workspace.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { ringfence, startDaemon, type TestDaemon } from '../support/daemon.ts';

const SECRET = 'hunter2-out-of-reach';

let daemon: TestDaemon;
let client: Client;
let workspace: string;
beforeAll(async () => {
  daemon = await startDaemon({ limits: { indexSweepMs: 50 } });
  client = await daemon.connect();
  workspace = daemon.workspace;
});
afterAll(async () => {
  execFileSync('chmod', ['-R', 'u+rwX', workspace]);
  await daemon[Symbol.asyncDispose]();
});
beforeEach(() => {
  execFileSync('sh', ['-c', 'chmod -R u+rwX . ; find . -mindepth 1 -delete'], { cwd: workspace });
  mkdirSync(join(workspace, 'src'));
  writeFileSync(join(workspace, 'src/main.ts'), 'plain');
  writeFileSync(join(workspace, 'plain.txt'), 'plain');
});

interface Ran {
  stdout: string;
  stderr: string;
  warnings: string;
}

async function run(command: string, of = client): Promise<Ran> {
  const result = await of.call('terminal_execute', { command });
  if (!result.success) throw new Error(`${result.error?.code}: ${result.error?.message}`);
  const { stdout, stderr } = result.data as Omit<Ran, 'warnings'>;
  return { stdout, stderr, warnings: (result.metadata.warnings ?? []).join('\n') };
}

/** Runs Python outside of any sandbox: Node accepts no path longer than the kernel's limit. */
const python = (script: string, ...args: string[]) =>
  execFileSync('python3', ['-c', script, ...args], { cwd: workspace, encoding: 'utf8' });

/** Expects other sessions to work: runs a command, changes a file with it, and reads a file with a tool. */
async function expectWork(): Promise<void> {
  await using other = await daemon.connect();
  expect((await run('cat src/main.ts; echo changed > src/made.ts; cat src/made.ts', other)).stdout).toBe(
    'plainchanged\n',
  );
  expect(await other.call('file_read', { path: 'plain.txt' })).toMatchObject({ success: true });
  const written = await other.call('file_write', { path: 'src/tool.ts', content: 'x' });
  expect(written).toMatchObject({ success: true });
}

/** Makes nested folders down to a file whose absolute path has a given number of bytes, for several lengths. */
const NEST = `
import os, sys
root = os.getcwd()
for bytes in map(int, sys.argv[3:]):
  os.chdir(root); os.mkdir(str(bytes)); os.chdir(str(bytes)); at = len(root) + 1 + len(str(bytes))
  while (left := bytes - at - len('/.env')) > 0:
    step = min(200, left - 1) if left - min(200, left - 1) != 1 + 1 else 199
    os.mkdir('d' * step); os.chdir('d' * step); at += 1 + step
  with open('.env', 'w') as f: f.write(sys.argv[1])
  print(at + len('/.env'))
`;

describe('a secret whose path has', () => {
  test('4 000, 4 050, 4 085, 4 088, 4 096 or 4 200 bytes is hidden, and others go on', async () => {
    const lengths = ['4000', '4001', '4050', '4085', '4088', '4096', '4100', '4200'];
    expect(
      python(NEST, SECRET, '', ...lengths)
        .trim()
        .split('\n'),
    ).toEqual(lengths);
    const { stdout, warnings } = await run(
      'for i in 4*; do (cd -P $i; while cd ddd* 2>/dev/null; do :; done; x=env; cat .$x; cat */.$x); done; find . -name ".en?" -exec cat {} +; true',
    );
    expect(stdout).not.toContain(SECRET);
    expect(warnings).toMatch(/is hidden with all that is in it: paths in it are too long/);
    await expectWork();
  });

  test('more than a path can have, by a chain of links, is hidden; what is trusted there is not written', async () => {
    const step = Array.from({ length: 7 }, () => 'd'.repeat(200)).join('/');
    await run(
      `for i in 1 2 3 4; do mkdir -p ${step}; ln -s ${step} n; cd n; done; cd ${workspace} && ln -s n/n/n/n conf`,
    );
    for (const folder of ['.git/hooks', '.vscode']) mkdirSync(join(workspace, 'conf', folder), { recursive: true });
    for (const [path, text] of [
      ['.env', SECRET],
      ['.vscode/tasks.json', 'trusted'],
      ['.git/HEAD', 'ref: refs/heads/main'],
      ['.git/hooks/pre-commit', 'trusted'],
    ] as const)
      writeFileSync(join(workspace, 'conf', path), text);
    const { stdout, warnings } = await run(
      'x=env; cat conf/.$x; cat n/n/n/n/.$x; cd conf; cat .$x; v=vscode; g=git; for f in .$v/tasks.json .$g/hooks/pre-commit; do echo evil > conf/$f; echo evil > $f; done; true',
    );
    expect(stdout).not.toContain(SECRET);
    for (const path of ['.vscode/tasks.json', '.git/hooks/pre-commit'])
      expect(readFileSync(join(workspace, 'conf', path), 'utf8')).toBe('trusted');
    expect(warnings).toMatch(/too long/);
    await expectWork();
  });
});

describe('one command does not stop the commands of others', () => {
  test('a secret whose name is not UTF-8 is hidden by its bytes in the workspace, and commands still run', async () => {
    await run("e=env; touch .$e.$'\\xff'; mkdir $'d\\xfe'; touch $'d\\xfe/.'$e");
    python(`open(b'.env.\\xff', 'w').write('${SECRET}'); open(b'd\\xfe/.env', 'w').write('${SECRET}')`);
    const { stdout, warnings } = await run(
      'shopt -s dotglob; cat *env* */*env*; cat plain.txt; touch made.txt; rm -f *env*; mv *env* x; ls -A',
    );
    expect(stdout).not.toContain(SECRET);
    expect(stdout).toContain('made.txt');
    expect(warnings).toMatch(/names that are not UTF-8/);
    expect(python("print(open(b'.env.\\xff').read())")).toContain(SECRET);
    const found = await client.call('file_grep', { pattern: 'hunter2' });
    expect(JSON.stringify(found)).not.toContain(SECRET);
    await expectWork();
  });

  test('a terminal is not shown a secret whose name is not UTF-8', async () => {
    python(`open(b'.env.\\xff', 'w').write('${SECRET}')`);
    const command = 'shopt -s dotglob; cat plain.txt *env*; echo; echo over';
    const opened = await client.call('terminal_interactive', { action: 'open', command, waitMs: 20_000 } as never);
    if (!opened.success) throw new Error(`${opened.error?.code}: ${opened.error?.message}`);
    const { output, sessionId } = opened.data as unknown as { output: string; sessionId: string };
    expect(output).toMatch(/plain[\s\S]*over/);
    expect(output).not.toContain(SECRET);
    await client.call('terminal_interactive', { action: 'close', sessionId } as never);
  });

  test('a folder that holds a secret whose name is not UTF-8 is hidden', async () => {
    await run("e=env; mkdir conf; touch conf/.$e.$'\\xff' conf/plain");
    const { stderr, warnings } = await run('ls conf');
    expect(stderr).toMatch(/Permission denied/);
    expect(warnings).toMatch(/`conf` is hidden .* not UTF-8/);
    await expectWork();
  });

  test('a command that closes a folder with a secret stops no other command and does not reveal the secret', async () => {
    mkdirSync(join(workspace, 'conf/inner'), { recursive: true });
    writeFileSync(join(workspace, 'conf/inner/.env'), SECRET);
    await run('true');
    await run('chmod 000 conf');
    const { stdout } = await run('chmod 755 conf; x=env; cat conf/inner/.$x; true');
    expect(stdout).not.toContain(SECRET);
    await expectWork();
    await run('true');
    const closed = await run('chmod 000 conf; true');
    expect(closed.stdout).not.toContain(SECRET);
    chmodSync(join(workspace, 'conf'), 0o755);
  });

  test('a closed folder that came with an archive is hidden and stops no command', async () => {
    mkdirSync(join(workspace, 'conf'));
    writeFileSync(join(workspace, 'conf/.env'), SECRET);
    chmodSync(join(workspace, 'conf'), 0);
    await expectWork();
    const { warnings } = await run('true');
    expect(warnings).toMatch(/`conf` is hidden .*its permissions let nobody enter it/);
  });

  test('a folder with too many secrets is hidden, and commands and operators get a warning', async () => {
    await run('e=env; for i in $(seq 1100); do : > src/.$e.$i; done');
    const { stderr, warnings } = await run('ls src');
    expect(stderr).toMatch(/Permission denied/);
    expect(warnings).toMatch(/`src` is hidden with all that is in it: it holds 1100 names that `no-secrets` keeps/);
    await using operator = await daemon.connect({ role: 'operator' });
    expect(await operator.request('status', {})).toMatchObject({
      coarseMasks: [{ workspace, path: 'src', why: 'too-many', rule: 'no-secrets', count: 1100 }],
    });
    const doctor = execFileSync(
      'sh',
      ['-c', `"${process.execPath}" "${ringfence}" doctor --socket "${daemon.socket}" || true`],
      {
        encoding: 'utf8',
        env: { ...process.env, RINGFENCE_STATE: daemon.stateDir },
      },
    );
    expect(doctor).toMatch(/warning +masks +in .*`src` is hidden/);
    expect((await run('cat plain.txt')).stdout).toBe('plain');
  });

  test('a workspace with too many secrets in its own folder shows its entries without the secrets', async () => {
    writeFileSync(join(workspace, '.env'), SECRET);
    await run('e=env; for i in $(seq 1500); do : > .$e.$i; done');
    writeFileSync(join(workspace, '.env.7'), SECRET);
    const { stdout, stderr, warnings } = await run('e=env; cat .$e .$e.7; cat plain.txt; ls -A; touch x');
    expect(stdout).not.toContain(SECRET);
    expect(stdout).toContain('plain');
    expect(stderr).toMatch(/Read-only file system/);
    expect(warnings).toMatch(/the workspace's own folder can't be changed/);
    expect(existsSync(join(workspace, 'x'))).toBe(false);
    await expectWork();
  });

  test.each([
    ['spread over many folders', 'e=env; for i in $(seq 1500); do mkdir d$i; : > d$i/.$e; done'],
    [
      'in many repositories',
      'g=git; for i in $(seq 700); do mkdir -p r/$i/.$g; : > r/$i/.$g/HEAD; : > r/$i/.$g/config; done',
    ],
    ['at the end of a thousand folders', 'p=$(printf "a/%.0s" $(seq 1500)); mkdir -p $p; e=env; : > $p/.$e'],
    [
      'under paths so long that no command line holds them',
      'n=$(printf "d%.0s" $(seq 240)); for i in $(seq 60); do p=t$i/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n; mkdir -p $p; e=env; : > $p/.$e; done',
    ],
  ])('secrets %s stop no command of others', async (_, command) => {
    writeFileSync(join(workspace, 'src/.env'), SECRET);
    await run(command);
    const { stdout, warnings } = await run('x=env; cat src/.$x; cat src/main.ts');
    expect(stdout).toBe('plain');
    expect(warnings).toMatch(/is hidden with all that is in it|the workspace's own folder can't be changed/);
    await expectWork();
  });
});

test('a folder is shown again when its many secrets are gone', async () => {
  // A workspace of its own: one that was too large is followed again after a minute only.
  await using fresh = await startDaemon({ limits: { indexSweepMs: 50 } });
  await using session = await fresh.connect();
  const inside = (path: string) => join(fresh.workspace, path);
  mkdirSync(inside('src'));
  writeFileSync(inside('src/main.ts'), 'plain');
  await run('e=env; for i in $(seq 200); do : > src/.$e.$i; done', session);
  expect((await run('ls src', session)).warnings).toMatch(/`src` is hidden/);
  for (let i = 1; i <= 200; i++) rmSync(inside(`src/.env.${i}`));
  await expect.poll(async () => (await run('cat src/main.ts', session)).stdout, { timeout: 5000 }).toBe('plain');
  expect((await run('true', session)).warnings).toBe('');
});
