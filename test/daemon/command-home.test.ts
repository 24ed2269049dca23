/** What programs find in a command's sandbox: a persistent HOME, resolvable names, room for their runtimes. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import { loadConfig } from '../../src/daemon/config.ts';
import { dataOf, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';

interface Result {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

const run = (client: Client, command: string): Promise<Result> =>
  dataOf(client.call('terminal_execute', { command, timeout: 60_000 }) as never);

describe('a command', () => {
  let daemon: TestDaemon;
  let client: Client;
  beforeAll(async () => {
    daemon = await startDaemon();
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
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

  test('finds in HOME what an earlier command left there, on a disk and not in memory', async () => {
    await run(client, 'mkdir -p ~/.cache/tool && head -c 300M /dev/zero > ~/.cache/tool/archive');
    expect((await run(client, 'stat -c %s ~/.cache/tool/archive; stat -f -c %T ~')).stdout).toMatch(
      /^314572800\n(?!tmpfs)/,
    );
  });

  test('may have forty WebAssembly memories in one process', async () => {
    const script =
      'const all = []; while (all.length < 40) all.push(new WebAssembly.Memory({ initial: 1, maximum: 65536 })); console.log(all.length)';
    expect((await run(client, `node -e '${script}'`)).stdout).toBe('40\n');
  });

  test('that fills /tmp succeeds with a warning, and a verdict that says so', async () => {
    const { success, metadata } = await client.call('terminal_execute', {
      command: 'head -c 2G /dev/zero > /tmp/full; true',
      timeout: 60_000,
    });
    expect(success).toBe(true);
    expect(metadata.warnings).toEqual([expect.stringContaining('/tmp was full')]);
    expect(metadata.resources.verdict).toBe('file');
  });
});

test('two workspaces, and two policies of one workspace, have homes of their own', async () => {
  const [one, two] = [temporaryDir('ws'), temporaryDir('ws')];
  await using daemon = await startDaemon({
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
  await using daemon = await startDaemon({ limits: { homeBytesMax: 64 * 1024 * 1024 } });
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
  const MiB = 1024 * 1024;
  const policy = 'tiers:\n  execute: { decision: allow, memoryMb: 128 }\n';
  let daemon: TestDaemon;
  let client: Client;
  beforeAll(async () => {
    daemon = await startDaemon({ policy, limits: { commandStarvedMs: 1_000 } });
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });

  test('that holds pages of files which can be read again is no need of the command, and no reason for a warning', async () => {
    const { success, metadata } = await client.call('terminal_execute', {
      command: 'head -c 300M /dev/zero > big; cat big big > /dev/null; sleep 0.2',
      timeout: 60_000,
    });
    expect({ success, warnings: metadata.warnings }).toEqual({ success: true, warnings: undefined });
    expect(metadata.resources.peakBytes).toBeLessThan(64 * MiB);
  });

  test('that is nearly used up is told of', async () => {
    const { success, metadata } = await client.call('terminal_execute', {
      command: `perl -e 'push @x, "x" x (1 << 20) for 1..118; sleep 1'`,
    });
    expect({ success, warnings: metadata.warnings }).toEqual({
      success: true,
      warnings: [expect.stringContaining('more than 90 % of the memory')],
    });
  });

  test('that leaves no room for the files which it reads ends it, instead of letting it read them for ever', async () => {
    if (daemon.confinement.cgroup === 'none')
      return console.warn('skipped: without control groups nobody holds pages of files');
    const { success, metadata } = await client.call('terminal_execute', {
      command: `head -c 100M /dev/zero > large; perl -e 'push @x, "x" x (1 << 20) for 1..117; for (;;) { open F, "<large"; 1 while sysread F, $b, 1 << 20 }'`,
      timeout: 25_000,
    });
    expect({ success, verdict: metadata.resources.verdict }).toEqual({ success: false, verdict: 'memory' });
  });

  test('is half of the machine by default, at most 8 GiB, and what the config says where that says it', () => {
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
