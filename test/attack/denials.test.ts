/** What commands meet at masks and read-only mounts is told by their calls, whatever they are called and print. */
import { chownSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { Denial } from '../../src/call.ts';
import { callOf, DATA_BASE, toElf } from '../../src/sandbox/syscall-program.ts';
import { type Arena, beside, eachIdentity } from '../support/arena.ts';
import { until } from '../support/daemon.ts';

const POLICY = `tiers:
  execute: { decision: allow, network: { allow: ["127.0.0.1:1"] } }
rules:
  - { id: locked, match: { write: "locked/**" }, decision: deny, reason: it is a test }
  - { id: closed, match: { read: "vault/**" }, decision: deny, reason: it is a test }
`;

/** By commands whose words don't say it: [why, script, what is told]. */
const MET: [name: string, script: string, told: Partial<Denial>[]][] = [
  ['cat', 'cat .env', [{ kind: 'read', target: '.env', rule: 'no-secrets', count: 1 }]],
  ['cat, twice', 'cat .env ./.env', [{ kind: 'read', target: '.env', count: 2 }]],
  ['an absolute path', 'cat "$PWD/sub/../.env"', [{ kind: 'read', target: '.env' }]],
  ['cd', 'cd sub; cat ../.env', [{ kind: 'read', target: '.env' }]],
  ['a link', 'cat sub/soft', [{ kind: 'read', target: '.env' }]],
  ['a link that it makes', 'ln -s ../.env sub/made; cat sub/made', [{ kind: 'read', target: '.env' }]],
  [
    'a link that leads there for a while',
    'mkdir new; cd new; for to in plain .env plain; do ln -sfn "../$to" l; cat l; done',
    [{ kind: 'read', target: '.env', count: 1 }],
  ],
  ['/proc', 'cat /proc/self/cwd/.env', [{ kind: 'read', target: '.env' }]],
  ['a descriptor of the shell', 'exec 3< .env', [{ kind: 'read', target: '.env' }]],
  ['perl', 'perl -e "open F, q(<), q(.env)"', [{ kind: 'read', target: '.env' }]],
  ['python', 'python3 -c "open(\\".env\\")"', [{ kind: 'read', target: '.env' }]],
  [
    'a search of a whole tree',
    'grep -r nothing .',
    [
      { kind: 'read', target: '.env' },
      { kind: 'read', target: 'vault' },
    ],
  ],
  [
    // A device is made anew, or left out, and not opened.
    'a copy of a whole tree, and an archive',
    'cp -r . /tmp/copy; tar cf /dev/null .',
    [{ kind: 'read', target: 'vault', count: 2 }],
  ],
  ['find', 'find . -name x', [{ kind: 'read', target: 'vault' }]],
  [
    'an open directory',
    'python3 -c "import os; os.open(\\".env\\", 0, dir_fd=os.open(\\".\\", 0))"',
    [{ kind: 'read', target: '.env' }],
  ],
  [
    'running it',
    './.env; vault/a',
    [
      { kind: 'read', target: '.env' },
      { kind: 'read', target: 'vault' },
    ],
  ],
  ['what it waits for in the background', 'cat .env & wait', [{ kind: 'read', target: '.env' }]],
  ['a hidden folder', 'ls vault', [{ kind: 'read', target: 'vault', rule: 'closed' }]],
  ['what is in a hidden folder, or is not', 'cat vault/a vault/b', [{ kind: 'read', target: 'vault', count: 2 }]],
  [
    'changing what is hidden',
    'perl -e "utime(1, 1, q(.env)) and print 1"; chown 1:1 .env && echo 1; chmod 600 .env && echo 1; mv .env x && echo 1',
    [{ kind: 'write', target: '.env', count: 4 }],
  ],
  ['entering a hidden folder', 'cd vault', [{ kind: 'read', target: 'vault' }]],
  ['writing what is hidden', ': > .env', [{ kind: 'write', target: '.env' }]],
  ['a hook', 'echo x > .git/hooks/x', [{ kind: 'write', target: '.git/hooks/x' }]],
  ['a hook, from there', 'cd .git/hooks && echo x > x', [{ kind: 'write', target: '.git/hooks/x' }]],
  ['the configuration of git', 'echo x >> .git/config', [{ kind: 'write', target: '.git/config' }]],
  ['what git puts there', 'echo x > .git/n; mv .git/n .git/config', [{ kind: 'write', target: '.git/config' }]],
  [
    'what a rule holds',
    'echo x > locked/new; chmod 600 locked/a',
    [
      { kind: 'write', target: 'locked/new', rule: 'locked' },
      { kind: 'write', target: 'locked/a', rule: 'locked' },
    ],
  ],
  ['removing a whole tree', 'rm -rf locked', [{ kind: 'write', target: 'locked/a', rule: 'locked' }]],
  [
    'its times, its owner, and a pipe beside it',
    'perl -e "utime 1, 1, q(locked/a)"; chown 1:1 .git/config; mkfifo locked/pipe; python3 -c "import os; os.utime(\\".git/hooks/y\\")"',
    [
      { kind: 'write', target: 'locked/a' },
      { kind: 'write', target: '.git/config' },
      { kind: 'write', target: 'locked/pipe' },
      { kind: 'write', target: '.git/hooks/y' },
    ],
  ],
  [
    'a file without a name',
    'python3 -c "import os; os.open(\\".git/hooks\\", os.O_TMPFILE | os.O_WRONLY)"',
    [{ kind: 'write', target: '.git/hooks' }],
  ],
  ['what leads to something held', 'mv .git g', [{ kind: 'write', target: '.git' }]],
  [
    'the system',
    'touch /usr/x; mkdir /x; rm -f /bin/true',
    [
      { kind: 'write', target: '/usr/x' },
      { kind: 'write', target: '/x' },
      { kind: 'write', target: '/usr/bin/true' },
    ],
  ],
];

/** Nothing of it is refused. */
const ALLOWED = [
  'cat plain; ls; ls -a; ls -R sub; stat .env vault; test -e .env; echo .env vault locked',
  'echo x > .git/COMMIT_EDITMSG; cat .git/config .git/hooks/* locked/a; ls .git/hooks locked',
  'mkdir -p a/b/c /tmp/a "$PWD/a/b"; echo x > a/b/c/x > /tmp/x; mv a/b/c/x a/y; ln -s y a/z; echo > a/z; rm -r a /tmp/a',
  'echo x > /dev/null; : > /dev/shm/x; echo x >/dev/stderr; cat /etc/passwd /usr/nothing /nothing/at/all',
  'mkdir .git; mkdir vault; cd .env; echo > /nothing/at/all; rm -f /usr/nothing; cat /dev/null/x .env/x',
  'git init -q --template= new; cd new; git -c user.name=a -c user.email=b commit -q --allow-empty -m x; git status',
  'python3 -c "import json, os; os.makedirs(\\"p/q\\"); open(\\"p/q/r\\", \\"w\\")"; rm -r p; perl -MPOSIX -e 1',
  'grep -r x sub new plain .git; find sub -type f; cp -r sub c; tar cf c.tar sub; touch -d 2001-01-01 c.tar c; chown -h "$(id -u)" c; rm -r c c.tar',
  'ln -s /usr/nothing dangling; touch -hd 2001-01-01 dangling; chown -h "$(id -u)" dangling; mv dangling new; rm new/dangling',
  'cat .env/ .env/.; : > /usr/bin/true/; : > locked/a/; : > locked/none/; mkdir locked/a/',
  ': > "/usr/$(printf "%0300d" 0)"; mkdir "/$(printf "%0300d" 0)"; : > "locked/$(printf "%0256d" 0)"',
  'cd .git/hooks; rm -f /proc/self/cwd /proc/self/root; chown -h 1:1 /proc/self/cwd; mv /proc/self/cwd /tmp/x',
  "rm -f sub/soft; perl -e 'unlink for qw(vault locked .git); rmdir for qw(.env .git/config locked/. locked/a/..); truncate $_, 0 for qw(vault locked /usr)'",
  'python3 -c "import os\nfor f in (1, 64, 512):\n  try: os.open("vault", os.O_WRONLY | f)\n  except IsADirectoryError: print(f)"',
  // What is told of another name: of a directory that is gone, of what is no UTF-8.
  'mkdir -p "new/d (deleted)" new/d; ln -s ../../.env "new/d (deleted)/x"; cd new/d; rmdir ../d; cat x',
  "mkdir new; cd new; ln -s ../.env $'\\xef\\xbf\\xbd'; echo x > $'\\xff'; cat $'\\xff'",
  "mkdir new; cd new; ln -s ../.env $'\\xef\\xbf\\xbd'; echo x > $'\\xff'; ln -s $'\\xff' l; cat l",
  "mkdir -p new/$'\\xff' new/$'\\xef\\xbf\\xbd'; ln -s ../../.env new/$'\\xef\\xbf\\xbd/x'; cd new/$'\\xff'; echo x > x; cat x",
  'exec 9<plain; cat <&9; read -r x < plain; cat <(echo x); cat <<< x',
];

// A busy machine may look later than a result waits for.
eachIdentity({ policy: POLICY, limits: { pathEvidenceMs: 10_000 } }, (arena) => {
  const at = (path: string) => join(arena.daemon.workspace, path);
  beforeAll(() => arena.command('true'));
  beforeEach(() => plant(arena));

  async function metBy(script: string, input: object = {}): Promise<Denial[]> {
    writeFileSync(at('run.sh'), script);
    const result = await arena.client.call('terminal_execute', { command: 'bash run.sh', ...input } as never);
    return result.metadata.denied ?? [];
  }

  test.each(MET)('%s is told what it met', async (_, script, told) => {
    const denied = await metBy(script);
    expect(denied).toEqual(told.map((it) => expect.objectContaining({ ...it, layer: 'sandbox' })));
    for (const it of denied) expect(it.suggestion).toMatch(/person|workspace/);
  });

  test.each(ALLOWED)('nothing is told of: %s', async (script) => {
    expect(await metBy(script)).toEqual([]);
  });

  test('nothing of a hidden folder is told by what is told of it', async () => {
    const told = async (path: string) =>
      JSON.stringify(await metBy(`cat vault/${path}; mkdir vault/${path}/x; cd vault/${path}`));
    const paths = ['a', 'nothing', 'dir', 'dir/x', 'nothing/x', 'link', 'link/x', 'out'];
    const all: string[] = [];
    for (const path of paths) all.push(await told(path));
    expect(new Set(all)).toEqual(new Set([all[0]]));
  });

  test('a workspace in which nothing is hidden or held tells of the system', async () => {
    for (const it of ['.env', '.git', 'vault', 'locked', 'sub']) rmSync(at(it), { recursive: true });
    const denied = await metBy('touch /usr/x; cat plain > copy; rm -r copy; cd /usr && mkdir y');
    expect(denied.map((it) => [it.kind, it.target])).toEqual([
      ['write', '/usr/x'],
      ['write', '/usr/y'],
    ]);
  });

  test('a command that is ended at its time limit tells what it met', async () => {
    expect(await metBy('cat .env; sleep 60', { timeout: 700 })).toEqual([expect.objectContaining({ target: '.env' })]);
  });

  test('a file that took the place of a hidden one is not said to be hidden', async () => {
    const waiting = metBy(': > new-began; until [ -e new-go ]; do sleep 0.01; done; cat .env locked/a; : > locked/new');
    await until(() => existsSync(at('new-began')));
    writeFileSync(at('other'), 'open now\n');
    renameSync(at('other'), at('.env'));
    writeFileSync(at('new-go'), '');
    expect(await waiting).toEqual([expect.objectContaining({ target: 'locked/new' })]);
    for (const it of ['new-began', 'new-go']) rmSync(at(it));
  });

  test('what a program opens is not taken for what its parent holds at the same address', async () => {
    const [OPEN, EXIT] = [2, 60];
    const code = Buffer.concat([callOf(OPEN, DATA_BASE, 0), callOf(EXIT, 0)]);
    writeFileSync(at('opens-plain'), toElf(code, Buffer.from('plain\0')), { mode: 0o755 });
    // Started by vfork(), which shares the memory of who calls it until the program begins.
    const script = `python3 -c '
import ctypes, subprocess
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
held = mmap(ctypes.c_void_p(${DATA_BASE}), ctypes.c_size_t(4096), 3, 0x100022, -1, ctypes.c_long(0))
ctypes.memmove(ctypes.c_void_p(held), b".env", 5)
print(held == ${DATA_BASE}, subprocess.run(["./opens-plain"]).returncode)'`;
    expect(await metBy(script)).toEqual([]);
    writeFileSync(at('opens-plain'), toElf(code, Buffer.from('.env\0')), { mode: 0o755 });
    expect(await metBy(script.replace('b".env", 5', 'b"plain", 6'))).toHaveLength(1);
    rmSync(at('opens-plain'));
  });

  test('neither many refusals by the system nor one of the network keep others from being told', async () => {
    const denied = await metBy('for i in {1..70}; do : > "/usr/of-$i"; done; cat .env; exec 3<>/dev/tcp/192.0.2.1/9');
    expect(denied).toHaveLength(64);
    expect(denied.map((it) => it.target)).toEqual(expect.arrayContaining(['network', '.env']));
  });

  test('each tells its own, of many at once', async () => {
    const targets = Array.from({ length: 8 }, (_, i) => `/usr/of-${i}`);
    const told = await Promise.all(
      targets.map((it) =>
        arena.client.call('terminal_execute', { command: `x=${it.slice(1)}; for i in 1 2 3; do : > "/$x"; done` }),
      ),
    );
    expect(told.map(({ metadata }) => metadata.denied?.map((it) => [it.target, it.count]))).toEqual(
      targets.map((it) => [[it, 3]]),
    );
  });

  test('a script of another shell, which connects as well, tells both', async () => {
    const script = 'cat .e*; exec 3<>/dev/tcp/192.0.2.1/9';
    const { metadata } = await arena.client.call('terminal_script', { script } as never);
    expect(metadata.denied?.map((it) => it.target).sort()).toEqual(['.env', 'network']);
  });

  test('nothing is warned of when commands end', async () => {
    await metBy('cat .env');
    await metBy('cat .env');
    expect(arena.daemon.log()).not.toContain('File descriptor');
  });

  test('opens without end are told in part, and hold up nobody', async () => {
    const seen = await beside(arena, () => arena.run({ program: 'flood-opens.pl', args: [2] }));
    // None, where the thread that hears of them did not come to tell in time.
    expect(seen.result.metadata.denied?.length ?? 0).toBeLessThanOrEqual(64);
    expect(seen.callMs).toBeLessThan(2000);
    expect(await metBy('cat .env')).toHaveLength(1);
  });
});

function plant({ daemon, identity }: Arena): void {
  const owner = identity.daemon ?? identity.workspace;
  for (const it of ['sub', 'new', 'vault', 'a', 'p'])
    rmSync(join(daemon.workspace, it), { recursive: true, force: true });
  const put = (path: string, text: string) => {
    const whole = join(daemon.workspace, path);
    const folder = dirname(whole);
    mkdirSync(folder, { recursive: true });
    writeFileSync(whole, text);
    if (owner) for (const it of [folder, whole]) chownSync(it, owner.uid, owner.gid);
  };
  for (const it of ['.env', 'plain', 'sub/x', 'vault/a', 'vault/dir/x', 'locked/a', '.git/hooks/y']) put(it, 'x\n');
  put('.git/config', '[core]\n');
  put('.git/HEAD', 'ref: refs/heads/main\n');
  symlinkSync('../.env', join(daemon.workspace, 'sub/soft'));
  symlinkSync('dir', join(daemon.workspace, 'vault/link'));
  symlinkSync('../plain', join(daemon.workspace, 'vault/out'));
}
