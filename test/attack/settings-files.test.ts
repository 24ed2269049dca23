/**
 * Names that count as secrets depending on their content: settings of package managers, folders, and files that a
 * command only writes.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { repository, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

const PLAIN = 'engine-strict=true\n';
const TOKEN = 'hunter2';
const WITH_TOKEN = `${PLAIN}//registry.npmjs.org/:_authToken=${TOKEN}\n`;
const DOTENV = 'PASSPHRASE=of-the-person';
/** Reads the file without naming it in the words. */
const READ = 'n=npmrc; cat ".$n"';

let daemon: TestDaemon;
let client: Client;
let workspace: string;
beforeAll(async () => {
  daemon = await startDaemon({ policy: 'approvals: { headless: deny }\n' });
  client = await daemon.connect();
  workspace = daemon.workspace;
});
afterAll(() => daemon[Symbol.asyncDispose]());
beforeEach(() => execFileSync('find', ['.', '-mindepth', '1', '-delete'], { cwd: workspace }));

const put = (path: string, text: string) => {
  mkdirSync(join(workspace, path, '..'), { recursive: true });
  writeFileSync(join(workspace, path), text);
};
const textOf = (path: string) => readFileSync(join(workspace, path), 'utf8');

async function run(command: string) {
  const result = await client.call('terminal_execute', { command });
  if (!result.success) return { code: result.error?.code, stdout: '', stderr: '', exitCode: -1 };
  const { stdout, stderr, exitCode } = result.data as { stdout: string; stderr: string; exitCode: number };
  return { code: undefined, stdout, stderr, exitCode };
}

const readByTool = (path: string) => client.call('file_read', { path });

async function expectHidden(path: string, command: string): Promise<void> {
  const { stdout, exitCode } = await run(command);
  expect([stdout, exitCode]).toEqual(['', 1]);
  expect(await readByTool(path)).toMatchObject({ success: false, error: { code: 'SENSITIVE_FILE' } });
  expect(await run(`grep -r x ${path}`)).toMatchObject({ code: undefined, stdout: '', exitCode: 2 });
  expect(JSON.stringify(await client.call('file_grep', { pattern: TOKEN }))).not.toContain('npmrc');
}

async function expectShown(path: string, command: string): Promise<void> {
  expect((await run(command)).stdout).toBe(PLAIN);
  // The host of the file tools is restarted without the mask, which takes a moment.
  await until(async () => (await readByTool(path)).success);
  expect(await readByTool(path)).toMatchObject({ success: true, data: { content: PLAIN } });
}

describe('settings of a package manager', () => {
  test('settings that an agent wrote are hidden while the person has a token in them, and shown without it', async () => {
    await run(`n=npmrc; printf '${PLAIN.trim()}\\n' > ".$n"`);
    // It was moved away, and nobody is there to be asked.
    await using operator = await daemon.connect({ role: 'operator' });
    expect(await operator.request('session.quarantine', { keep: ['.npmrc'] })).toMatchObject({ done: ['.npmrc'] });
    expect(textOf('.npmrc')).toBe(PLAIN);
    for (let turn = 0; turn < 5; turn++) {
      await expectShown('.npmrc', READ);
      put('.npmrc', WITH_TOKEN);
      await expectHidden('.npmrc', READ);
      put('.npmrc', PLAIN);
    }
    await expectShown('.npmrc', READ);
  });

  test('settings are hidden from the next command when a token comes with the size and time of the old text', async () => {
    const same = `${'#'.repeat(WITH_TOKEN.length - 1)}\n`;
    put('packages/a/.npmrc', same);
    const stamp = () => execFileSync('touch', ['-d', '2020-01-01', join(workspace, 'packages/a/.npmrc')]);
    stamp();
    const command = 'n=npmrc; cat "packages/a/.$n"';
    expect((await run(command)).stdout).toBe(same);
    put('packages/a/.npmrc', WITH_TOKEN);
    stamp();
    await expectHidden('packages/a/.npmrc', command);
  });

  test('settings with a token are not revealed by a link, copy, move or folder of another name', async () => {
    put('a/.npmrc', WITH_TOKEN);
    put('b/.npmrc', PLAIN);
    const script = [
      'n=npmrc; ln -s "a/.$n" x.txt; ln "a/.$n" y.txt; cp "a/.$n" z.txt; mv "a/.$n" "b/.$n"; mv a c; ln -sfn ../a b/d',
      'mount --bind "b/.$n" "a/.$n"; cat x.txt y.txt z.txt "b/.$n" "c/.$n" "b/d/.$n" "a/.$n"',
    ];
    expect((await run(script.join('; '))).stdout).toBe(PLAIN);
    expect((await run('n=npmrc; cat x.txt y.txt z.txt "b/.$n" "c/.$n" "b/d/.$n" "a/.$n"')).stdout).toBe(PLAIN);
    for (const path of ['x.txt', 'b/d/.npmrc', 'a/.npmrc'])
      expect(await readByTool(path)).toMatchObject({ success: false });
    expect(textOf('a/.npmrc')).toBe(WITH_TOKEN);
  });

  test('settings that cannot be understood count as secrets', async () => {
    put('.npmrc', `${PLAIN}${'#'.repeat(20_000)}\n`);
    await expectHidden('.npmrc', READ);
    rmSync(join(workspace, '.npmrc'));
    execFileSync('mkfifo', [join(workspace, '.npmrc')]);
    expect((await run(`timeout 5 sh -c '${READ}'`)).exitCode).toBe(1);
  });

  test('settings are not changed without a question', async () => {
    put('.npmrc', PLAIN);
    const evil = 'script-shell=./evil.sh\n';
    await run(`n=npmrc; printf '${evil.trim()}\\n' > ".$n"; rm -f ".$n"; mv -f ".$n" x`);
    expect(textOf('.npmrc')).toBe(PLAIN);
    const answer = await client.call('file_write', { path: '.npmrc', content: evil });
    expect(JSON.stringify(answer)).toMatch(/protected-names/);
  });
});

describe('what a command only writes', () => {
  test('a file that a command only writes is no secret that it reads: `cp .env.example .env` creates one', async () => {
    put('.env.example', 'A=\n');
    expect(await run('cp .env.example .env')).toMatchObject({ exitCode: 0 });
    expect(textOf('.env')).toBe('A=\n');
  });

  test('stays behind its mask where it is there already', async () => {
    put('.env', DOTENV);
    put('.env.example', 'A=\n');
    for (const command of ['cp .env.example .env', 'cp -f .env.example .env', 'cp -r . .env', 'mkdir -p .env']) {
      const { code, exitCode } = await run(command);
      expect([code, exitCode]).toEqual([undefined, 1]);
    }
    expect(textOf('.env')).toBe(DOTENV);
  });

  test.each([
    'cp .env x',
    'cp -t y .env',
    'cp x .env && cat .env',
    'cp x .env < .env',
    'cp () { cat "$2"; }; cp x .env',
    'mv .env x',
    'ln .env x; ln -s .env x; cat x',
    'tar c .env',
  ])('a secret that a command names is not read, copied or moved: %s', async (command) => {
    put('.env', DOTENV);
    put('x', 'A=\n');
    mkdirSync(join(workspace, 'y'));
    const { stdout } = await run(`${command}; cat x y/* y/.env`);
    expect(stdout).not.toContain(DOTENV);
    expect(textOf('.env')).toBe(DOTENV);
    if (existsSync(join(workspace, 'y/.env'))) expect(textOf('y/.env')).toBe('');
  });
});

describe('a folder', () => {
  test('a folder is no secret by a word in its name, and files in it are judged by their own names', async () => {
    put('tests/password-reset/reset_test.py', PLAIN);
    put('tests/password-reset/passwords.txt', DOTENV);
    expect(await run('ls tests/password-reset && mv tests/password-reset/reset_test.py tests/')).toMatchObject({
      exitCode: 0,
    });
    expect(await client.call('file_list', { path: 'tests/password-reset' })).toMatchObject({ success: true });
    expect(await run('cat tests/password-reset/passwords.txt')).toMatchObject({ stdout: '', exitCode: 1 });
    expect((await run('cat tests/pass*/*; grep -r . tests')).stdout).not.toContain(DOTENV);
    expect(await run('mkdir -p src/password-reset && rmdir src/password-reset')).toMatchObject({ exitCode: 0 });
    expect(await run('mkdir -p src/password-reset')).toMatchObject({ exitCode: 0 });
    expect(await run('rmdir src/password-reset')).toMatchObject({ exitCode: 0 });
  });

  test('a folder behind a link with another name is judged by its own name', async () => {
    put('secrets/a', DOTENV);
    await run('s=secrets; ln -s "$s" password-reset');
    expect((await run('ls password-reset; cat password-reset/*')).stdout).toBe('');
    expect(await client.call('file_list', { path: 'password-reset' })).toMatchObject({ success: false });
    expect((await run('ls secrets')).stdout).toBe('');
  });
});

test('the compiler and git work in a repository whose names speak of secrets', async () => {
  const sources = ['src/same-secret.ts', 'src/credentials.ts', 'src/secrets.test.ts'];
  for (const path of sources) put(path, 'export const one: number = 1;\n');
  put(
    'src/main.ts',
    "import { one } from './same-secret.js';\nexport * from './credentials.js';\nexport default one;\n",
  );
  put('tests/test_password_reset.py', 'def test(): pass\n');
  put('.npmrc', PLAIN);
  put('.gitignore', 'node_modules\n');
  put(
    'tsconfig.json',
    '{"compilerOptions": {"rootDir": "src", "outDir": "out", "module": "nodenext", "types": []}, "include": ["src"]}',
  );
  const compilers = join(repository, 'node_modules/@typescript');
  for (const it of readdirSync(compilers))
    cpSync(join(compilers, it), join(workspace, 'node_modules', it), { recursive: true });
  const git = (...words: string[]) => execFileSync('git', words, { cwd: workspace, encoding: 'utf8' });
  git('init', '-q', '.');
  const named = 'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b';
  const done = { code: undefined, stdout: '', stderr: '', exitCode: 0 };

  expect(await run('node_modules/typescript-*/lib/tsc -p .')).toEqual(done);
  expect(existsSync(join(workspace, 'out/same-secret.js'))).toBe(true);
  expect(await run(`${named}; git add -A && git commit -qm first`)).toEqual(done);
  for (const path of sources) put(path, 'export const one: number = 2;\n');
  expect(await run(`${named}; git add -A && git commit -qam second && git status --porcelain`)).toEqual(done);
  const kept = git('ls-tree', '-r', '--name-only', 'HEAD').split('\n');
  expect(kept).toEqual(expect.arrayContaining([...sources, 'tests/test_password_reset.py', '.npmrc']));
});

test('the bounds of the configuration hold for what is read of settings files, and in how many folders', async () => {
  const limits = { settingsFileBytesMax: 64, settingsFilesMax: 8, settingsFoldersMax: 1 };
  await using other = await startDaemon({ limits });
  await using agent = await other.connect();
  const write = (folder: string, text: string) => {
    mkdirSync(join(other.workspace, folder), { recursive: true });
    writeFileSync(join(other.workspace, folder, '.npmrc'), text);
  };
  const shown = async (folder: string) => {
    const result = await agent.call('terminal_execute', { command: `n=npmrc; cat "${folder}/.$n"` });
    return result.success && (result.data as { stdout: string }).stdout;
  };
  write('first', PLAIN.repeat(8));
  expect(await agent.call('file_read', { path: 'first/.npmrc' })).toMatchObject({ error: { code: 'SENSITIVE_FILE' } });
  expect(await shown('first')).toBe('');
  write('first', PLAIN);
  expect(await shown('first')).toBe(PLAIN);
  // The bound allows one folder.
  write('second', PLAIN);
  expect(await shown('second')).toBe('');
  expect(await shown('first')).toBe(PLAIN);
});
