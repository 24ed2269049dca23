/** What programs find in a command's sandbox: a persistent HOME, resolvable names, room for their runtimes. */
import { execFileSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { loadConfig } from '../../src/daemon/config.ts';
import { settingsIn, writeSettings } from '../../src/sandbox/etc/settings.ts';
import { canServeOthers, dataOf, type OpenDaemon, openDaemon, temporaryDir, until } from '../support/daemon.ts';

const MiB = 1024 * 1024;

interface Result {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

const run = (client: Client, command: string): Promise<Result> =>
  dataOf(client.call('terminal_execute', { command, timeout: 60_000 }) as never);

describe('a command', () => {
  let daemon: OpenDaemon;
  let client: Client;
  let inVarTmp: string;
  beforeAll(async () => {
    inVarTmp = mkdtempSync('/var/tmp/ringfence-ws-');
    daemon = await openDaemon({ args: ['--workspace', inVarTmp] });
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    rmSync(inVarTmp, { recursive: true });
  });

  test('runs in a repository in /var/tmp, which is empty but for it, and in memory', async () => {
    execFileSync('git', ['init', '-q', inVarTmp]);
    await using there = await daemon.connect({ workspace: inVarTmp });
    const { stdout, exitCode } = await run(there, 'pwd -P; touch /var/tmp/a && ls -A /var/tmp; git status --short');
    expect({ stdout, exitCode }).toEqual({ stdout: `${inVarTmp}\na\n${basename(inVarTmp)}\n`, exitCode: 0 });
    const filled = await run(there, 'head -c 300M /dev/zero > /var/tmp/a; stat -c %s /var/tmp/a');
    expect(filled).toMatchObject({ stdout: `${256 * MiB}\n`, stderr: expect.stringContaining('No space left') });
    const preview = await there.call('terminal_execute', { command: 'touch b && ls /var/tmp' }, { preview: true });
    expect(preview).toMatchObject({ success: true });
  });

  test('resolves localhost, and the name of its own machine, to itself', async () => {
    const script = `
      const { createServer } = require('node:http');
      const server = createServer((_, answer) => answer.end('hello')).listen(0, 'localhost', async () => {
        const answer = await fetch('http://localhost:' + server.address().port);
        console.log(await answer.text());
        server.close();
      });`;
    expect((await run(client, `node -e "${script.replaceAll('\n', ' ')}"`)).stdout).toBe('hello\n');
    expect((await run(client, 'getent hosts localhost "$(hostname)" | wc -l')).stdout).toBe('2\n');
  });

  test('a command lists the interfaces of its network, which are its loopback', async () => {
    const script = 'Object.keys(require("node:os").networkInterfaces()).join()';
    expect(await run(client, `node -p '${script}'`)).toMatchObject({ stdout: 'lo\n', stderr: '' });
  });

  test('the account that a command runs as has its home, and passwd names no other person', async () => {
    const { homedir, shell } = JSON.parse((await run(client, `node -p 'JSON.stringify(os.userInfo())'`)).stdout);
    expect({ homedir, shell }).toEqual({ homedir: '/run/home', shell: '/bin/bash' });
    const tilde = 'id -un >/dev/null && id -gn >/dev/null && eval echo "~$(id -un)"';
    expect(await run(client, tilde)).toMatchObject({ stdout: '/run/home\n', stderr: '' });
    expect((await run(client, 'echo | ssh-keygen -qt ed25519 -N "" && ls ~/.ssh')).stdout).toContain('id_ed25519.pub');
    const persons = `awk -F: '$3 >= 1000 && $3 != 65534 && $3 != '$(id -u) /etc/passwd; grep , /etc/group`;
    expect((await run(client, persons)).stdout).toBe('');
  });

  test('programs that describe the system find what they list, and none finds a key of its servers', async () => {
    const describe = 'lscpu >/dev/null && touch /var/tmp/a && rm /tmp/a';
    expect(await run(client, describe)).toMatchObject({ stderr: '', exitCode: 0 });
    if (existsSync('/usr/bin/dpkg')) expect((await run(client, 'dpkg -l bash | tail -1')).stdout).toMatch(/^ii +bash /);
    if (existsSync('/usr/bin/lsb_release')) expect((await run(client, 'lsb_release -is')).stdout).toMatch(/^\w+\n$/);
    expect((await run(client, 'ls -A /etc/ssl/private; ls -d /etc/{shadow,machine-id}')).stdout).toBe('');
    expect(await run(client, 'echo 0 >/sys/devices/system/cpu/cpu1/online')).toMatchObject({ exitCode: 1 });
  });

  test('settings of the machine are shown exactly if they hold no credential', async () => {
    const folder = writeSettings(mkdtempSync(join(tmpdir(), 'ringfence-etc-')), 16_384);
    const shown = settingsIn(folder).map((it) => `${it} ${readFileSync(join(folder, it), 'utf8')}`);
    rmSync(folder, { recursive: true });
    const names = 'npmrc pip.conf gitconfig wgetrc maven/settings.xml maven/toolchains.xml';
    const show = `cd /etc; for it in ${names}; do [ -e $it ] && printf '%s ' $it && cat $it; done; true`;
    expect((await run(client, show)).stdout).toBe(shown.join(''));
  });

  test('pgrep -f finds programs by their words, and none by the words that built the sandbox', async () => {
    const words =
      "pgrep -fc -- '--tmpf[s]'; tr '\\0' '\\n' </proc/1/cmdline | grep -c -e '^--ro-bin[d]' -e '/home[s]/'";
    expect((await run(client, words)).stdout).toBe('0\n0\n');
    expect(
      (
        await run(
          client,
          "sleep 7 & until pgrep -f 'sleep [7]' >/dev/null; do :; done; pgrep -f 'sleep [7]' | wc -l; kill %1",
        )
      ).stdout,
    ).toBe('1\n');
  });

  test('wget and git find the files of settings to which their variables point', async () => {
    expect(await run(client, 'git config --global --list && test -f "$WGETRC"')).toMatchObject({
      stderr: '',
      exitCode: 0,
    });
  });

  test.runIf(existsSync('/usr/bin/java'))('Java has the home and the proxy of its command', async () => {
    const { stdout } = await run(client, 'java -XshowSettings:properties -version 2>&1');
    for (const it of ['user.home = /run/home', 'https.proxyHost = 127.0.0.1', 'https.proxyPort = 3128'])
      expect(stdout).toContain(it);
  });

  test('a command finds in HOME what an earlier command left there, on a disk and not in memory', async () => {
    await run(client, 'mkdir -p ~/.cache/tool && head -c 300M /dev/zero > ~/.cache/tool/archive');
    expect((await run(client, 'stat -c %s ~/.cache/tool/archive; stat -f -c %T ~')).stdout).toMatch(
      /^314572800\n(?!tmpfs)/,
    );
  });

  test('a command may have forty WebAssembly memories in one process', async () => {
    const script =
      'const all = []; while (all.length < 40) all.push(new WebAssembly.Memory({ initial: 1, maximum: 65536 })); console.log(all.length)';
    expect((await run(client, `node -e '${script}'`)).stdout).toBe('40\n');
  });

  test('a command finds in /tmp what an earlier command of its session left there, until the session ends', async () => {
    const left = () =>
      readdirSync(join(daemon.stateDir, 'homes')).flatMap((it) =>
        readdirSync(join(daemon.stateDir, 'homes', it)).filter((name) => name.startsWith('tmp-')),
      );
    const other = await daemon.connect();
    await run(client, 'echo mine > /tmp/note');
    await run(other, 'echo theirs > /tmp/note');
    expect((await run(client, 'cat /tmp/note')).stdout).toBe('mine\n');
    expect((await run(other, 'cat /tmp/note')).stdout).toBe('theirs\n');
    expect(left()).toHaveLength(2);
    await other[Symbol.asyncDispose]();
    await until(() => left().length === 1);
    expect((await run(client, 'cat /tmp/note')).stdout).toBe('mine\n');
  });

  test('a preview that fills its /tmp, which is in memory, succeeds with a warning, and a verdict that says so', async () => {
    const command = 'head -c 2G /dev/zero > /tmp/full; true';
    const { success, metadata } = await client.call('terminal_execute', { command }, { preview: true });
    expect(success).toBe(true);
    expect(metadata.warnings).toEqual([expect.stringContaining('/tmp was full')]);
    expect(metadata.resources.verdict).toBe('file');
  });

  test('a file in /tmp is bounded as files of the workspace are', async () => {
    const filled = await client.call('terminal_execute', { command: 'head -c 9G /dev/zero > /tmp/full' });
    expect(filled).toMatchObject({ success: false, error: { code: 'FILE_LIMIT' } });
    await run(client, 'rm /tmp/full');
  });
});

test.runIf(canServeOthers)(
  "a daemon of root shows commands in another user's folder an account with their home, and settings that all may read",
  async () => {
    const workspace = temporaryDir('theirs');
    chownSync(workspace, 64_123, 64_123);
    await using daemon = await openDaemon({ workspace });
    await using client = await daemon.connect();
    const account = JSON.parse((await run(client, `node -p 'JSON.stringify(os.userInfo())'`)).stdout);
    expect(account).toMatchObject({ uid: 64_123, gid: 64_123, homedir: '/run/home', username: 'sandbox' });
    const persons = `awk -F: '$3 >= 1000 && $3 != 65534 && $3 != 64123' /etc/passwd; grep , /etc/group`;
    expect((await run(client, `${persons}; id -gn`)).stdout).toBe('sandbox\n');
    expect((await run(client, 'echo | ssh-keygen -qt ed25519 -N "" && ls ~/.ssh')).stdout).toContain('id_ed25519.pub');
    const folder = writeSettings(mkdtempSync(join(tmpdir(), 'ringfence-etc-')), 16_384);
    const open = settingsIn(folder).filter((it) => (statSync(`/etc/${it}`).mode & 0o004) !== 0);
    const texts = open.map((it) => readFileSync(join(folder, it), 'utf8'));
    rmSync(folder, { recursive: true });
    const paths = open.map((it) => `/etc/${it}`).join(' ');
    expect((await run(client, `cat ${paths} </dev/null`)).stdout).toBe(texts.join(''));
    const change = await run(
      client,
      'echo x >>/etc/passwd; rm -f /etc/group; mv /etc/passwd /tmp; stat -c %a /etc/passwd',
    );
    expect(change.stdout).toBe('644\n');
    if (existsSync('/usr/bin/keytool'))
      expect((await run(client, 'test -s "${JAVA_TOOL_OPTIONS##*trustStore=}" && echo store')).stdout).toBe('store\n');
    rmSync(workspace, { recursive: true });
  },
);

test('two workspaces, and two policies of one workspace, have homes of their own', async () => {
  const [one, two] = [temporaryDir('ws'), temporaryDir('ws')];
  await using daemon = await openDaemon({
    workspace: one,
    args: ['--workspace', two],
    config: { principals: {} },
  });
  await using first = await daemon.connect({ workspace: one });
  await using second = await daemon.connect({ workspace: two });
  await run(first, 'echo secret > ~/mine');
  expect((await run(first, 'cat ~/mine')).stdout).toBe('secret\n');
  expect((await run(second, 'ls -A ~')).stdout).toBe('');
});

test('a home that holds more than it may loses its largest parts, and the next command is told which', async () => {
  await using daemon = await openDaemon({ limits: { homeBytesMax: 64 * 1024 * 1024 } });
  await using client = await daemon.connect();
  await run(
    client,
    'mkdir -p ~/.cache/big ~/.keep && head -c 40M /dev/urandom > ~/.cache/big/it && echo small > ~/.keep/it',
  );
  let warnings: readonly string[] = [];
  await until(async () => {
    const { metadata } = await client.call('terminal_execute', { command: 'true' });
    warnings = metadata.warnings ?? warnings;
    return warnings.length > 0;
  });
  expect(warnings).toEqual([expect.stringContaining('.cache/big')]);
  expect((await run(client, 'cat ~/.keep/it; ls ~/.cache')).stdout).toBe('small\n');
});

describe('memory of a command', () => {
  const policy = 'tiers:\n  execute: { decision: allow, memoryMb: 128 }\n';
  let daemon: OpenDaemon;
  let client: Client;
  beforeAll(async () => {
    daemon = await openDaemon({ policy, limits: { commandStarvedMs: 1_000 } });
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });

  test("pages of files that can be read again don't count as memory of a command and cause no warning", async () => {
    const { success, metadata } = await client.call('terminal_execute', {
      command: 'head -c 300M /dev/zero > big; cat big big > /dev/null; sleep 0.2',
      timeout: 60_000,
    });
    expect({ success, warnings: metadata.warnings }).toEqual({ success: true, warnings: undefined });
    expect(metadata.resources.peakBytes).toBeLessThan(64 * MiB);
  });

  test('a command that nearly uses up its memory gets a warning', async () => {
    const { success, metadata } = await client.call('terminal_execute', {
      command: `perl -e 'push @x, "x" x (1 << 20) for 1..118; sleep 1'`,
    });
    expect({ success, warnings: metadata.warnings }).toEqual({
      success: true,
      warnings: [expect.stringContaining('more than 90 % of the memory')],
    });
  });

  test('a command whose memory leaves no room for the files that it reads is ended, instead of reading them for ever', async () => {
    if (daemon.confinement.cgroup === 'none')
      return console.warn('skipped: without control groups nobody holds pages of files');
    const { success, metadata } = await client.call('terminal_execute', {
      command: `head -c 100M /dev/zero > large; perl -e 'push @x, "x" x (1 << 20) for 1..117; for (;;) { open F, "<large"; 1 while sysread F, $b, 1 << 20 }'`,
      timeout: 25_000,
    });
    expect({ success, verdict: metadata.resources.verdict }).toEqual({ success: false, verdict: 'memory' });
  });

  test('the memory limit is half of the machine by default, at most 8 GiB, or what the config says', () => {
    const env = { HOME: temporaryDir('home') };
    const stateDir = temporaryDir('state');
    const workspace = [temporaryDir('ws')];
    const load = () => loadConfig({ state: stateDir, workspace }, env, '/').limits.commandMax;
    const half = Math.floor(Math.min(totalmem(), process.constrainedMemory() || Infinity) / MiB / 2);
    expect(load().memoryMb).toBe(Math.min(half, 8192));
    mkdirSync(join(env.HOME, '.config/ringfence'), { recursive: true });
    const file = join(env.HOME, '.config/ringfence/config.yaml');
    writeFileSync(file, 'limits: { commandMax: { cpuMs: 1000 } }\n');
    expect(load()).toMatchObject({ cpuMs: 1000, memoryMb: Math.min(half, 8192) });
    writeFileSync(file, 'limits: { commandMax: { memoryMb: 300 } }\n');
    expect(load().memoryMb).toBe(300);
  });
});
