/** Escapes from the workspace by path: refused by the tools and, with the tools removed, by the host's mounts. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { runtime, version } from '../../src/base/runtime.ts';
import type { Client } from '../../src/client/client.ts';
import { createSandbox } from '../../src/sandbox/sandbox.ts';
import { startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';

const SECRET = 'the-secret-of-this-test';
let parent: string;
let workspace: string;
let daemon: TestDaemon;
let client: Client;

beforeAll(async () => {
  parent = temporaryDir('paths');
  workspace = join(parent, 'ws');
  mkdirSync(join(workspace, 'sub'), { recursive: true });
  mkdirSync(join(parent, 'ws-evil'));
  for (const path of ['outside.txt', 'ws-evil/x']) writeFileSync(join(parent, path), SECRET);
  writeFileSync(join(workspace, 'inside.txt'), 'inside\n');
  symlinkSync('../outside.txt', join(workspace, 'link'));
  symlinkSync('..', join(workspace, 'up'));
  symlinkSync(parent, join(workspace, 'absolute'));
  symlinkSync('/proc/self/environ', join(workspace, 'environ'));
  symlinkSync('inside.txt', join(workspace, 'fine'));
  symlinkSync(join(workspace, 'sub/../inside.txt'), join(workspace, 'sub/fine'));
  symlinkSync('loop', join(workspace, 'loop'));
  execFileSync('mkfifo', [join(workspace, 'fifo')]);
  daemon = await startDaemon({ workspace, env: { TOP_SECRET: SECRET } });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  rmSync(parent, { recursive: true, force: true });
});

const OUTSIDE = [
  ...[
    '../outside.txt',
    'sub/../../outside.txt',
    './../ws/../outside.txt',
    '../ws-evil/x',
    '..',
    'link',
    'up/outside.txt',
  ],
  ...['absolute/outside.txt', '/etc/passwd', '/dev/zero', '/proc/self/environ', 'environ', '/', '//etc/passwd'],
];

describe('file_read', () => {
  test.each(OUTSIDE)('file_read of %s is ACCESS_DENIED and shows nothing', async (path) => {
    const result = await client.call('file_read', { path });
    expect(result).toMatchObject({
      success: false,
      error: { code: 'ACCESS_DENIED' },
      metadata: { resources: { verdict: 'denied' } },
    });
    expect(JSON.stringify(result)).not.toContain(SECRET);
  });

  test('file_read of an absolute path outside says the same whether or not it exists', async () => {
    const [there, missing] = await Promise.all(
      ['outside.txt', 'missing.txt'].map((it) => client.call('file_read', { path: join(parent, it) })),
    );
    const told = (it: typeof there, name: string) =>
      JSON.stringify((it as { error?: unknown } | undefined)?.error).replaceAll(name, '');
    expect(told(there, 'outside.txt')).toBe(told(missing, 'missing.txt'));
  });

  test('file_read of a path with NUL is INPUT_INVALID', async () => {
    expect(await client.call('file_read', { path: 'inside.txt\0.png' })).toMatchObject({
      error: { code: 'INPUT_INVALID' },
    });
  });

  test.each(['fifo', 'sub', 'loop'])(
    'file_read of %s, which is no regular file, is UNSUPPORTED at once',
    async (path) => {
      expect(await client.call('file_read', { path })).toMatchObject({ error: { code: 'UNSUPPORTED' } });
    },
  );

  test('file_read of a socket is UNSUPPORTED', async () => {
    const server = createServer().listen(join(workspace, 'socket'));
    try {
      expect(await client.call('file_read', { path: 'socket' })).toMatchObject({ error: { code: 'UNSUPPORTED' } });
    } finally {
      server.close();
    }
  });

  test.each(['fine', 'sub/fine', 'sub/../inside.txt', './/inside.txt'])(
    'file_read of %s, which stays inside, is answered',
    async (path) => {
      expect(await client.call('file_read', { path })).toMatchObject({ success: true, data: { content: 'inside\n' } });
    },
  );

  test.each(['.env', '.env.local', 'sub/id_rsa', '.ssh/config', 'my-secrets.json', 'server.pem'])(
    'file_read of %s is SENSITIVE_FILE, whether or not it exists',
    async (path) => {
      expect(await client.call('file_read', { path })).toMatchObject({ error: { code: 'SENSITIVE_FILE' } });
    },
  );

  test('file_read of a sensitive file by a link with a harmless name is SENSITIVE_FILE', async () => {
    writeFileSync(join(workspace, '.env'), SECRET);
    symlinkSync('.env', join(workspace, 'settings'));
    expect(await client.call('file_read', { path: 'settings' })).toMatchObject({ error: { code: 'SENSITIVE_FILE' } });
  });
});

/** Denied by the policy's rule on protected files, by the rule on secrets (`.env*`), or else by the tool itself. */
const DENIED = expect.stringMatching(/^(POLICY_DENIED|SENSITIVE_FILE|ACCESS_DENIED)$/);

describe('file_write', () => {
  test.each([...OUTSIDE, 'absolute/new.txt', 'up/new.txt'])(
    'file_write to %s changes nothing outside',
    async (path) => {
      const result = await client.call('file_write', { path, content: 'overwritten' });
      expect(result.success).toBe(false);
      expect(readFileSync(join(parent, 'outside.txt'), 'utf8')).toBe(SECRET);
    },
  );

  test.each(['.git/hooks/pre-commit', '.git/config', 'sub/.git/config'])(
    'file_write to %s, which git trusts, is denied',
    async (path) => {
      expect(await client.call('file_write', { path, content: '' })).toMatchObject({
        error: { code: DENIED },
      });
    },
  );
});

test.each([
  ...[
    '.git//hooks/pre-commit',
    '.git/./hooks/x',
    '.git/info/../hooks/x',
    'sub/.git',
    '.git/commondir',
    '.git/modules/m/config',
  ],
  ...['g/config', 'h/post-checkout', 'v/tasks.json'],
])('file_write to %s, a protected path by another spelling or a link, is denied', async (path) => {
  for (const folder of ['.git/hooks', '.git/info', '.vscode']) mkdirSync(join(workspace, folder), { recursive: true });
  for (const [link, target] of [
    ['g', '.git'],
    ['h', '.git/hooks'],
    ['v', '.vscode'],
  ] as const) {
    rmSync(join(workspace, link), { force: true });
    symlinkSync(target, join(workspace, link));
  }
  expect(await client.call('file_write', { path, content: 'x' })).toMatchObject({ error: { code: DENIED } });
});

test('a directory that is swapped for a link out of the workspace while it is used is never followed', async () => {
  const [real, aside] = [join(workspace, 'swap'), join(workspace, 'aside')];
  mkdirSync(real);
  writeFileSync(join(real, 'outside.txt'), 'inside');
  let racing = true;
  const race = (async () => {
    while (racing) {
      renameSync(real, aside);
      symlinkSync(parent, real);
      await new Promise(setImmediate);
      rmSync(real);
      renameSync(aside, real);
      await new Promise(setImmediate);
    }
  })();
  const results = await Promise.all(
    Array.from({ length: 1000 }, () => client.call('file_read', { path: 'swap/outside.txt' })),
  );
  racing = false;
  await race;
  expect(JSON.stringify(results)).not.toContain(SECRET);
});

describe('with the tool layer taken away', () => {
  /** The output of a shell in place of a tier host. */
  async function inHost(tier: 'read_only' | 'write' | 'execute', script: string): Promise<string> {
    const stateDir = temporaryDir('state');
    try {
      const sandbox = await createSandbox(
        {
          runtime,
          version,
          stateDir,
          workspaces: [workspace],
          limits: defaultLimits,
          arch: process.arch,
          platform: process.platform,
        },
        systemPowers(),
      );
      const { child } = sandbox.startHost(
        tier,
        workspace,
        ['/bin/bash', '-c', script],
        ['ignore', 'pipe', 'pipe', 'ignore'],
      );
      const [out, err] = await Promise.all([
        text(child.stdout as NodeJS.ReadableStream as never),
        text(child.stderr as never),
      ]);
      return out + err;
    } finally {
      rmSync(stateDir, { recursive: true, force: true });
    }
  }

  /** Names in a folder on the path to our own code, wherever it was cloned, to the workspace and to facts of the system. */
  const wayDown = (tier: string, folder: string): string[] => {
    const facts = tier === 'execute' ? ['/var/lib/dpkg'].filter((it) => existsSync(it)) : [];
    const below = [...runtime.needed, workspace, ...facts].filter((it) => it.startsWith(`${folder}/`));
    return [...new Set(below.map((it) => it.slice(folder.length + 1).split('/')[0] as string))].sort();
  };

  test.each(['read_only', 'write', 'execute'] as const)(
    'the %s host holds nothing of outside, not even by name',
    async (tier) => {
      const files = [`${parent}/outside.txt`, `${workspace}/link`, `${parent}/ws-evil/x`, '/etc/shadow'];
      const folders = ['/root', '/home', '/var'];
      const absent = folders.filter((it) => wayDown(tier, it).length === 0);
      const open = folders.filter((it) => wayDown(tier, it).length > 0);
      const said = await inHost(
        tier,
        [
          `cat ${files.join(' ')}; ls ${parent}`,
          ...absent.map((it) => `ls -d ${it}`),
          ...open.map((it) => `echo ${it}: $(ls -A ${it})`),
        ].join('; '),
      );
      expect(said).not.toContain(SECRET);
      expect(said).toMatch(new RegExp(`^${basename(workspace)}$`, 'm'));
      expect(said.match(/No such file/g)?.length).toBe(files.length + absent.length);
      for (const it of open) expect(said).toContain(`${it}: ${wayDown(tier, it).join(' ')}\n`);
    },
  );

  test.each(['read_only', 'write', 'execute'] as const)('the %s host has no environment but its own', async (tier) => {
    const said = await inHost(tier, 'cat /proc/self/environ /proc/1/environ | tr "\\0" "\\n" | cut -d= -f1 | sort -u');
    expect(
      said
        .replace(/.*Permission denied\n/g, '')
        .trim()
        .split('\n')
        .filter((it) => !['_', 'PWD', 'SHLVL', 'OLDPWD'].includes(it))
        .sort(),
    ).toEqual(['HOME', 'LANG', 'PATH']);
  });

  test('the read_only host can not write the workspace, the write host can write nothing else', async () => {
    expect(await inHost('read_only', `echo x > ${workspace}/inside.txt`)).toMatch(/Read-only file system/);
    expect(await inHost('write', `echo x > ${parent}/y; echo x > /usr/y; echo x > /y`)).toMatch(
      /(.*Read-only file system[\s\S]*){2}/,
    );
    // Files beside the workspace in /tmp are in the host's own scratch space, and gone with it.
    expect(existsSync(join(parent, 'y'))).toBe(false);
  });

  test('no host has a network', async () => {
    for (const tier of ['read_only', 'write', 'execute'] as const) {
      expect(await inHost(tier, 'grep -c : /proc/net/dev')).toBe('1\n');
    }
  });
});
