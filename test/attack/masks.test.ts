/**
 * Commands that try to read a denied file in many ways: the mounts refuse all of them. Runs in this process, so that
 * only the mounts are in the way: no policy judges these command lines.
 */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { hostProgram, runtime, version } from '../../src/base/runtime.ts';
import { Hosts, type PathView } from '../../src/hosts/hosts.ts';
import { WorkspaceIndex } from '../../src/hosts/workspace-index.ts';
import type { Rule } from '../../src/policy/schema.ts';
import { createSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts';
import { temporaryDir, until } from '../support/daemon.ts';

const SECRET = 'hunter2-of-this-test';
/** The secret in the forms in which programs may print it. */
const FORMS = [SECRET, Buffer.from(SECRET).toString('base64').slice(0, 12), Buffer.from(SECRET).toString('hex')];

const rule = (id: string, match: Rule['match'], decision: Rule['decision'] = 'deny'): Rule => ({
  id,
  match,
  decision,
  reason: 'it is a test',
  source: 'test.yaml:1',
});
const viewOf = (key: string, ...rules: Rule[]): PathView => ({ key, rules, home: '/nonexistent' });
const view = viewOf(
  'secrets',
  rule('no-secrets', { read: ['**/.env*', 'vault/**', 'conf/prod.json'] }),
  rule('no-writes', { write: ['locked.txt', 'docs/**', 'deep/er/held.txt'] }),
  rule('ask-first', { read: ['private/**', 'asked.txt'] }, 'ask'),
  rule('keep', { delete: 'kept.txt' }),
);

let workspace: string;
let stateDir: string;
let sandbox: Sandbox;
let hosts: Hosts;

beforeAll(async () => {
  workspace = temporaryDir('masks');
  stateDir = temporaryDir('state');
  const limits = { ...defaultLimits, hostMasksMs: 1 };
  const powers = systemPowers();
  const machine = { arch: process.arch, platform: process.platform, version };
  sandbox = await createSandbox({ runtime, stateDir, workspaces: [workspace], limits, ...machine }, powers);
  hosts = new Hosts({ sandbox, program: hostProgram, limits }, powers);
});
afterAll(async () => {
  await hosts[Symbol.asyncDispose]();
  for (const it of [workspace, stateDir]) rmSync(it, { recursive: true, force: true });
});

interface Ran {
  stdout: string;
  stderr: string;
  exitCode: number;
}

async function call(
  tier: 'read_only' | 'write' | 'execute',
  tool: string,
  input: object,
  extra: { view?: PathView; lifted?: string[] } = {},
) {
  const bounds = { ...defaultLimits.commandMax, outputBytes: 65_536 };
  const request = { tool, input, bounds, ...(extra.lifted && { lifted: extra.lifted }) };
  const signal = AbortSignal.timeout(20_000);
  return (await hosts.run({ tier, workspace, view: extra.view ?? view }, request, { signal })).result;
}

async function run(command: string, extra: Parameters<typeof call>[3] & { cwd?: string } = {}): Promise<Ran> {
  const result = await call(
    'execute',
    'terminal_execute',
    { command, cwd: extra.cwd ?? '.', env: {}, timeout: 20_000 },
    extra,
  );
  if (result.ok) return result.data as Ran;
  const { code, message } = result.error;
  throw new Error(`${code}: ${message}`);
}

const put = (path: string, text = SECRET) => {
  mkdirSync(dirname(join(workspace, path)), { recursive: true });
  writeFileSync(join(workspace, path), text);
};
const textOf = (path: string) => readFileSync(join(workspace, path), 'utf8');

const HIDDEN = ['.env', 'dir/.env', 'vault/a/b.txt', 'conf/prod.json', 'private/a.txt', 'private/b.txt', 'asked.txt'];
const HELD = ['locked.txt', 'docs/a.md', 'deep/er/held.txt', 'kept.txt'];

beforeEach(reset);

const READS: [name: string, command: string][] = [
  ['cat', 'cat .env dir/.env vault/a/b.txt conf/prod.json'],
  ['a redirection', 'cat 0<.env; while read -r l || [ -n "$l" ]; do echo "$l"; done < .env'],
  ['$(<)', 'echo "$(< .env)"'],
  ['a variable', 'f=.e; g=nv; cat "$f$g"'],
  ['eval and an escaped name', "eval $'cat \\x2eenv'"],
  ['globs', 'cat .e* .??v dir/.[e]* */.env va*/*/*'],
  ['brace expansion', 'cat .{e,x}nv vault/{a,b}/b.txt'],
  ['find -exec', 'find . -type f -exec cat {} +; find . -exec cat {} \\;'],
  ['xargs', 'ls -A | xargs cat; find . -print0 | xargs -0 cat'],
  ['grep -r', 'grep -r hunter . ; grep -a "" .env; grep -rf /dev/null -v .'],
  ['sed, awk, head, tail, tac', 'sed "" .env; awk 1 .env; head .env; tail .env; tac .env'],
  ['dd', 'dd if=.env; dd if=.env of=copy; cat copy'],
  ['cp', 'cp .env copy; cp -a dir copies; cp -r vault copies2; cat copy copies/.env copies2/a/b.txt'],
  ['mv', 'mv .env moved; mv vault vault2; cat moved vault2/a/b.txt'],
  ['mv of the directory above', 'mv dir dir2; cat dir2/.env; mv conf conf2; cat conf2/prod.json'],
  ['a hard link', 'ln .env linked; ln dir/.env linked2; cat linked linked2'],
  ['a symbolic link', 'ln -sf .env soft; ln -sfn vault softer; cat soft softer/a/b.txt; readlink -f soft | xargs cat'],
  ['tar', 'tar cf - . | tar xOf -; tar cf - .env vault | cat'],
  ['zip and gzip', 'gzip -c .env | zcat; zip -q - .env 2>&1 | cat; bzip2 -c .env; xz -c .env'],
  [
    'python',
    'python3 -c "print(open(\'.env\').read())"; python3 -c "import os; fd=os.open(\'.env\',os.O_RDONLY); print(os.read(fd,99))"',
  ],
  [
    'python with O_PATH',
    "python3 -c \"import os; fd=os.open('.env',os.O_PATH); print(open('/proc/self/fd/%d'%fd).read())\"",
  ],
  ['python with mmap, sendfile and os.link', "python3 -c \"import os; os.link('.env','l'); print(open('l').read())\""],
  ['perl', 'perl -ne print .env; perl -e \'open F,"<",".env" or die $!; print <F>\''],
  ['mapfile', 'mapfile -t a < .env; echo "$a"'],
  ['read', 'read -r a < .env; echo "$a"'],
  ['source', 'source ./.env; . .env; bash .env; bash -x .env'],
  ['exec of a descriptor', 'exec 9<.env; cat <&9'],
  ['process substitution', 'cat <(cat .env); diff <(cat .env) /dev/null'],
  ['diff and cmp', 'diff .env /dev/null; cmp -l .env plain.txt; comm .env plain.txt; paste .env'],
  [
    'base64, xxd, od, hexdump',
    'base64 .env; xxd -p .env; od -c .env; hexdump -C .env; od -An -tx1 .env | tr -d " \\n"',
  ],
  [
    'git add and show',
    'git init -q g && cd g && git --work-tree=.. add -f ../.env; git --work-tree=.. add -A; git show :.env; git cat-file --batch-all-objects --batch',
  ],
  ['git hash-object', 'git init -q g; cd g; git cat-file -p "$(git hash-object -w ../.env)"'],
  ['git diff and grep without an index', 'git diff --no-index /dev/null .env; git grep --no-index hunter'],
  ['/proc/self/cwd', 'cat /proc/self/cwd/.env; cat /proc/$$/cwd/dir/.env'],
  ['/proc/*/root', 'cat /proc/self/root$PWD/.env; cat /proc/*/root$PWD/.env; cat /proc/*/cwd/.env'],
  [
    'dots and slashes',
    'cat ./.env .//.env dir/../.env "../$(basename "$PWD")/.env" $PWD/.env vault/../vault/a/b.txt vault/a/../a/b.txt',
  ],
  ['cd', 'cd dir && cat .env; cd ../vault && cat a/b.txt; cd vault/a && cat b.txt'],
  ['chmod first', 'chmod 777 .env vault; chmod -R a+rwx .; cat .env vault/a/b.txt'],
  ['chown and setfacl', 'chown 1000 .env; setfacl -m u:1000:r .env; cat .env'],
  [
    'exchange of names',
    "python3 -c \"import ctypes,os; l=ctypes.CDLL(None); print(l.renameat2(-100,b'dir',-100,b'docs',2))\"; cat docs/.env",
  ],
  [
    'a hard-linked or renamed parent, twice',
    'mkdir -p n/m; mv dir n/m/; mv n o; cat o/m/dir/.env n/m/dir/.env dir/.env',
  ],
  [
    'coreutils that show content in passing',
    'cat -v .env; nl .env; sort .env; uniq .env; fold .env; split .env part; cat part*; wc .env; strings .env',
  ],
  ['install, rsync, tee', 'install .env copy3; cat copy3; rsync .env copy4; cat copy4; tee < .env'],
  [
    'bash history and here files',
    'history -r .env; history; fc -R .env; BASH_ENV=.env bash -c :; bash --rcfile .env -ic : ; cat .env - <<< x',
  ],
];

/** Attempts on the mounts themselves; without masks they show nothing either. */
const TRICKS: typeof READS = [
  ['umount', 'umount .env; umount -l vault; cat .env vault/a/b.txt'],
  ['mount over it', 'mount --bind dir /tmp; mount -t tmpfs none dir; cat .env /tmp/.env'],
  ['a user namespace of its own', 'unshare -Urm sh -c "umount .env; cat .env"; unshare -U cat .env'],
  ['rm and git checkout', 'rm -f .env; rm -rf dir vault; cat .env dir/.env vault/a/b.txt'],
  ['replacing it', 'echo x > new; mv -f new .env; cat .env; ln -sf plain.txt .env; cat .env'],
];

/** Opens copies of hidden folders, which only root can read. */
const openAll = (): unknown => execFileSync('chmod', ['-R', 'u+rwX', workspace]);

function reset(): void {
  openAll();
  for (const it of readdirSync(workspace)) rmSync(join(workspace, it), { recursive: true });
  for (const path of HIDDEN) put(path);
  for (const path of HELD) put(path, 'untouched');
  put('plain.txt', 'plain');
}

describe('a denied file', () => {
  test.each([...READS, ...TRICKS])('a denied file is not shown to a command by %s', async (_, command) => {
    // Earlier attempts may have left copies; none may hold the secret.
    const { stdout, stderr } = await run(command);
    for (const form of FORMS) expect(stdout + stderr).not.toContain(form);
    openAll();
    const found = execFileSync('grep', ['-rlaF', SECRET, workspace], { encoding: 'utf8' }).trim().split('\n').sort();
    expect(found.map((it) => it.slice(workspace.length + 1))).toEqual([...HIDDEN].sort());
  });

  test('each of these ways shows a file that no rule denies', async () => {
    for (const [name, command] of READS) {
      reset();
      const { stdout, stderr } = await run(command, { view: viewOf('') });
      expect([name, FORMS.some((it) => (stdout + stderr).includes(it))]).toEqual([name, true]);
    }
  });

  test("a second command can't read a denied file that the first one tried to rename", async () => {
    await run('mv dir plain-dir; mv conf open; mkdir -p conf; cp -r vault other; mv private public');
    const { stdout } = await run('cat */.env */prod.json other/a/b.txt public/*; find . -type f | xargs cat');
    expect(stdout).toContain('plain');
    expect(stdout).not.toContain(SECRET);
    for (const path of HIDDEN) expect(textOf(path)).toBe(SECRET);
  });

  test("a variable can't add arguments of bubblewrap by its value", async () => {
    await run('true'); // Lets a sandbox be prepared for the next command.
    for (const name of ['MINE', 'RANDOM']) {
      const env = { [name]: ['a', '--bind', workspace, workspace].join('\0') };
      const result = await call('execute', 'terminal_execute', { command: 'cat .env', cwd: '.', env, timeout: 20_000 });
      expect(JSON.stringify(result)).not.toContain(SECRET);
      expect(result).toMatchObject({ ok: false, error: { code: 'INPUT_INVALID' } });
    }
  });

  test('a command that touches a denied file gets a permission error', async () => {
    const { stderr } = await run('cat .env; ls vault; : > .env; chmod 600 .env; rm -f .env; mv .env x; rmdir vault');
    expect(
      stderr
        .replaceAll(/^\S+ (line \d+: )?/gm, '')
        .trim()
        .split('\n'),
    ).toEqual([
      expect.stringMatching(/Permission denied/),
      expect.stringMatching(/Permission denied/),
      expect.stringMatching(/Permission denied/),
      expect.stringMatching(/Read-only file system/),
      expect.stringMatching(/Device or resource busy/),
      expect.stringMatching(/Device or resource busy/),
      expect.stringMatching(/Device or resource busy/),
    ]);
  });

  test('other files are as ever', async () => {
    expect(
      (await run('cat plain.txt; echo more >> plain.txt; mkdir -p made/it; rm -r made; cat docs/a.md')).stdout,
    ).toBe('plainuntouched');
    expect(textOf('plain.txt')).toBe('plainmore\n');
  });
});

const WRITES: [name: string, command: string][] = [
  ['redirections', 'echo x > locked.txt; echo x >> docs/a.md; echo x >| deep/er/held.txt; : > docs/new'],
  [
    'tee, dd, cp, install',
    'echo x | tee locked.txt docs/a.md; dd if=/dev/zero of=locked.txt count=1; cp plain.txt locked.txt; install plain.txt docs/a.md',
  ],
  ['mv over it', 'mv -f plain.txt locked.txt; mv -f plain.txt docs/a.md; mv plain.txt docs/'],
  ['removal', 'rm -f locked.txt docs/a.md deep/er/held.txt kept.txt; rm -rf docs deep; unlink kept.txt'],
  [
    'its directory moved away and made anew',
    'mv deep d; mv deep/er e; mkdir -p deep/er; echo x > deep/er/held.txt; mv docs docs2; mkdir docs',
  ],
  [
    'sed -i, truncate, patch',
    "sed -i s/u/x/ locked.txt docs/a.md; truncate -s 0 locked.txt; perl -pi -e 's/u/x/' locked.txt",
  ],
  [
    'python',
    "python3 -c \"open('locked.txt','w').write('x')\"; python3 -c \"import os; os.replace('plain.txt','locked.txt')\"",
  ],
  ['a hard link', 'ln locked.txt l && echo x > l; ln docs/a.md m && echo x > m'],
  [
    'a symbolic link',
    'ln -sf locked.txt l2; echo x > l2; ln -sfn docs l3; echo x > l3/a.md; ln -sf plain.txt locked.txt',
  ],
  ['/proc', 'echo x > /proc/self/cwd/locked.txt; echo x > /proc/self/root$PWD/docs/a.md'],
  ['chmod and touch', 'chmod 777 locked.txt docs docs/a.md && echo x > locked.txt; touch -d 2000-01-01 locked.txt'],
  ['remounting', 'mount -o remount,rw locked.txt; mount -o remount,bind,rw docs; umount docs; echo x > docs/a.md'],
  [
    'tar and git',
    'echo x > t; tar cf x.tar t --transform s/t/locked.txt/; tar xf x.tar; git init -q r; cd r; git --work-tree=.. checkout -f 2>&1',
  ],
  [
    'exchange of names',
    "python3 -c \"import ctypes; l=ctypes.CDLL(None); l.renameat2(-100,b'plain.txt',-100,b'locked.txt',2); l.renameat2(-100,b'dir',-100,b'deep',2)\"",
  ],
];

/** Attempts that change nothing even without protection. */
const TRICKY_WRITES = new Set<string>();

describe('a file that may not be written', () => {
  test.each(WRITES)('a command does not change a file that may not be written by %s', async (_, command) => {
    await run(command);
    for (const path of HELD) expect([path, textOf(path)]).toEqual([path, 'untouched']);
    expect(existsSync(join(workspace, 'docs/new'))).toBe(false);
  });

  test('each of these ways changes a file that no rule denies', async () => {
    for (const [name, command] of WRITES.filter(([it]) => !TRICKY_WRITES.has(it))) {
      reset();
      await run(command, { view: viewOf('') });
      const changed = HELD.some((path) => !existsSync(join(workspace, path)) || textOf(path) !== 'untouched');
      expect([name, changed]).toEqual([name, true]);
    }
  });

  test('a file that only may not be removed is written', async () => {
    await run('echo more >> kept.txt; rm -f kept.txt');
    expect(textOf('kept.txt')).toBe('untouchedmore\n');
  });

  test.each([
    '.git/hooks/pre-commit',
    '.git/config',
    'sub/.git/config',
    'sub/.git/hooks/x',
    '.git/modules/m/config',
    'tree/.git',
    'sub/.vscode/tasks.json',
    '.envrc',
  ])('a command does not change %s, which other programs trust, under any policy', async (path) => {
    for (const folder of ['', 'sub/']) put(`${folder}.git/HEAD`, 'ref: refs/heads/main');
    put(path, 'trusted');
    const folder = dirname(path);
    const { stderr } = await run(
      `echo x > ${path}; rm -f ${path}; mv ${folder} gone; mv ${folder.split('/')[0]} gone2; mkdir -p ${folder}; echo x > ${path}`,
      { view: viewOf('') },
    );
    expect(textOf(path)).toBe('trusted');
    expect(stderr).toMatch(/Read-only file system/);
    rmSync(join(workspace, '.git'), { recursive: true });
    rmSync(join(workspace, 'sub'), { recursive: true });
  });

  test("a command can't put a hook beside others, where a rule has exceptions", async () => {
    put('.git/HEAD', 'ref: refs/heads/main');
    put('.git/hooks/pre-push.sample', 'trusted');
    const excepting = viewOf(
      'excepting',
      rule('some', { all: [{ read: '**/.env*' }, { not: { read: '.env.example' } }] }),
    );
    const { stderr } = await run('echo x > .git/hooks/pre-commit; echo x > .git/hooks/pre-push.sample', {
      view: excepting,
    });
    expect(stderr.match(/Read-only file system/g)).toHaveLength(2);
    expect(existsSync(join(workspace, '.git/hooks/pre-commit'))).toBe(false);
    rmSync(join(workspace, '.git'), { recursive: true });
  });
});

describe('a person outside', () => {
  test('edits, replaces, moves and removes what is masked, while commands and hosts hold it', async () => {
    const running = run(
      'echo up > up; until [ -e stop ]; do sleep 0.02; done; cat .env dir/.env vault/a/b.txt; cat .env.moved',
    );
    await until(() => existsSync(join(workspace, 'up')));
    put('.env', `${SECRET} edited`);
    writeFileSync(join(workspace, 'tmp'), SECRET);
    renameSync(join(workspace, 'tmp'), join(workspace, 'conf/prod.json'));
    rmSync(join(workspace, 'vault'), { recursive: true });
    expect(textOf('.env')).toBe(`${SECRET} edited`);
    writeFileSync(join(workspace, 'stop'), '');
    expect((await running).stdout).not.toContain(SECRET);
    for (const it of ['up', 'stop']) rmSync(join(workspace, it));
    const { stdout, stderr } = await run('cat .env conf/prod.json; ls vault');
    expect(stdout).not.toContain(SECRET);
    expect(stderr).toMatch(/No such file/);
  });

  test.each([
    ['a file', ['.env.new']],
    ['a file in a new tree', ['fresh/a/b/.env']],
    ['a tree of hundreds', Array.from({ length: 30 }, (_, i) => `grown/${i}/x/.env`)],
  ])('makes %s, and the next command does not see what is in it', async (_, paths) => {
    await run('true');
    for (const path of paths) put(path);
    try {
      await until(async () => {
        const { stdout } = await run(`cat ${paths.join(' ')}`);
        return !stdout.includes(SECRET);
      }, 3000);
      // Also later in the same tree, where the kernel's watcher may miss it.
      const later = join(dirname(paths[0] as string), '.env.later');
      put(later);
      await until(async () => !(await run(`cat ${later}`)).stdout.includes(SECRET), 3000);
    } finally {
      for (const path of ['fresh', 'grown', '.env.new', '.env.later'])
        rmSync(join(workspace, path), { recursive: true, force: true });
    }
  });
});

describe('what a person approved for one call', () => {
  test('a file that a person approved for one call is shown to that call alone, and no file beside it', async () => {
    const ask = 'cat asked.txt private/a.txt private/b.txt .env';
    expect((await run(ask)).stdout).toBe('');
    expect((await run(ask, { lifted: ['private/a.txt', '.env'] })).stdout).toBe(SECRET);
    expect((await run(ask, { lifted: ['private', 'asked.txt'] })).stdout).toBe(SECRET.repeat(3));
    expect((await run(ask)).stdout).toBe('');
  });
});

describe('file tools', () => {
  const read = (path: string, extra = {}) =>
    call('read_only', 'file_read', { path, startLine: 1, encoding: 'utf-8' }, extra);

  test('get the same answer, with the rule that gave it', async () => {
    for (const path of ['.env', 'dir/.env', 'vault/a/b.txt', 'conf/prod.json', 'dir/../.env']) {
      expect(await read(path)).toMatchObject({
        ok: false,
        error: { code: 'POLICY_DENIED', rule: 'no-secrets', details: { source: 'test.yaml:1' } },
      });
    }
    expect(await read('plain.txt')).toMatchObject({ ok: true, data: { content: 'plain' } });
  });

  test('file tools refuse a link to a denied file, and one that leads where a person must be asked', async () => {
    symlinkSync('.env', join(workspace, 'settings'));
    symlinkSync('vault', join(workspace, 'open'));
    symlinkSync('asked.txt', join(workspace, 'free'));
    try {
      expect(await read('settings')).toMatchObject({ error: { code: 'POLICY_DENIED', rule: 'no-secrets' } });
      expect(await read('open/a/b.txt')).toMatchObject({ error: { code: 'POLICY_DENIED', rule: 'no-secrets' } });
      expect(await read('free')).toMatchObject({
        error: { code: 'POLICY_DENIED', rule: 'ask-first', message: expect.stringMatching(/leads to `asked.txt`/) },
      });
    } finally {
      for (const it of ['settings', 'open', 'free']) rmSync(join(workspace, it));
    }
  });

  test('read by its own name what a rule only asks about: the gateway has asked', async () => {
    expect(await read('asked.txt')).toMatchObject({ ok: true, data: { content: SECRET } });
  });

  test('file tools get a new host when a masked file was replaced, as editors do, or another one came', async () => {
    const pid = async () => {
      await read('plain.txt');
      return (await hosts.status()).filter((it) => it.tier === 'read_only').map((it) => it.pid);
    };
    for (const path of ['.env', 'dir/new.env']) {
      const [before] = await pid();
      put(`${path}.tmp`);
      renameSync(join(workspace, `${path}.tmp`), join(workspace, path.replace('new.env', '.env.local')));
      await until(async () => !(await pid()).includes(before as number));
    }
    expect(await pid()).toHaveLength(1);
  });

  test('do not write what is denied', async () => {
    const write = (path: string) =>
      call('write', 'file_write', { path, content: 'x', encoding: 'utf-8', createDirs: true, overwrite: true });
    for (const path of ['locked.txt', 'docs/new.md', 'deep/er/held.txt']) {
      expect(await write(path)).toMatchObject({ ok: false, error: { code: 'POLICY_DENIED', rule: 'no-writes' } });
    }
    expect(await write('plain.txt')).toMatchObject({ ok: true });
  });
});

describe('with the tool layer taken away', () => {
  /** The output of a shell in place of a tier host, with the masks that the host would have. */
  async function inHost(tier: 'read_only' | 'write', script: string): Promise<string> {
    await using index = new WorkspaceIndex(workspace, defaultLimits, systemPowers());
    const masks = await index.masks(view);
    const { child } = sandbox.startHost(
      tier,
      workspace,
      ['/bin/bash', '-c', script],
      ['ignore', 'pipe', 'pipe', 'ignore'],
      { masks },
    );
    return (await Promise.all([child.stdout, child.stderr].map((it) => text(it as Readable)))).join('');
  }

  test.each(['read_only', 'write'] as const)('the %s host holds nothing of a denied file', async (tier) => {
    const said = await inHost(
      tier,
      `cd ${workspace}; cat .env dir/.env vault/a/b.txt conf/prod.json plain.txt; mv dir d2; cat d2/.env`,
    );
    expect(said).not.toContain(SECRET);
    expect(said.match(/Permission denied/g)?.length).toBe(4);
    expect(said).toContain('plain');
  });

  test('the write host can not change what is held, and can change the rest', async () => {
    await inHost(
      'write',
      `cd ${workspace}; echo x > locked.txt; echo x > docs/a.md; rm -rf docs deep; mv deep d; echo x > plain.txt`,
    );
    for (const path of HELD) expect(textOf(path)).toBe('untouched');
    expect(textOf('plain.txt')).toBe('x\n');
  });
});
