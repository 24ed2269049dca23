import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findUserDirs } from '../../src/daemon/user-dirs.ts';
import { dataOf, ringfence, temporaryDir } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';
import { connectMcp, type McpLine, startMcp } from '../mcp-line.ts';
import { inTurns, median, type Subject } from '../measure.ts';
import { memoryOf, memoryOfAll, processesOf } from '../memory.ts';
import { type Peers, startPeers } from '../peers.ts';

const CALLS_AT_ONCE = 32;

/** Makes `amount` calls, several at once. */
const crowd =
  (amount: number, call: () => Promise<unknown>): Subject =>
  async () => {
    let left = amount;
    const one = async () => {
      while (left-- > 0) await call();
    };
    await Promise.all(Array.from({ length: CALLS_AT_ONCE }, one));
  };

/** Time from the start of a program to its first byte. */
const started =
  (...args: string[]): Subject =>
  async () => {
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'ignore'] });
    const ended = once(child, 'close');
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'bench', version: '1' } };
    child.stdin
      .on('error', () => {})
      .write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`); // The bare program reads nothing.
    await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await ended;
  };

/** Pause in ms, like a model's between calls; the next sandbox is ready by then. */
const PAUSE_MS = 40;

/** Compares our sandboxed command with one of a server without a sandbox. */
async function commands(bench: Context, ours: McpLine, theirs: Peers['commands']): Promise<void> {
  const sizes = { rounds: bench.size(2, 8), times: bench.size(1, 10) };
  for (const [when, pauseMs, warmRounds] of [
    ['one right behind the other', 0, 120],
    ['after a pause', PAUSE_MS, 10],
  ] as const) {
    const run = `run true, ${when}: MCP, at the socket`;
    const their = theirs && `run true (no sandbox), ${when}: ${theirs.name}`;
    const subjects: Record<string, Subject> = {
      ...(their && { [their]: () => theirs.line.call('run_command', { command: 'true' }) }),
      [run]: () => ours.call('terminal_execute', { command: 'true' }),
    };
    const taken = await inTurns(subjects, { ...sizes, pauseMs, warmRounds: bench.size(1, warmRounds) });
    bench.times(taken, their ? { over: their } : {});
    if (!their) continue;
    const of = (name: string) => median((taken[name] ?? []).flat());
    bench.value(`run true, ${when}: what ours takes more than theirs`, of(run) - of(their), 'ms', { most: 3 });
  }
}

async function memory(bench: Context, peers: Peers): Promise<void> {
  const processes = await processesOf(await bench.daemon(), 3);
  bench.value('memory: the daemon and its hosts, Rss', memoryOfAll(processes, 'Rss'), 'MiB');
  for (const { name, line } of [peers.files, peers.commands].filter((it) => it !== undefined))
    if (line.pid !== undefined) bench.value(`memory: ${name}, Rss`, memoryOf(line.pid, 'Rss'), 'MiB');
}

async function run(bench: Context): Promise<void> {
  const client = await bench.client('mcp');
  const home = temporaryDir('peers-home');
  const { socket } = await bench.daemon();
  const { mcpSocket } = findUserDirs({ socket }, {});
  const [path, full] = ['four-kib.txt', join(client.folder, 'four-kib.txt')];
  writeFileSync(full, `${'x'.repeat(63)}\n`.repeat(64));
  let lines = 64;
  // A new parameter each time, so that nothing comes from the cache.
  const fresh = (line: McpLine) => () => line.call('file_read', { path, maxLines: ++lines });
  const through = ['mcp', '--socket', socket, '--workspace', client.folder];
  try {
    await using peers = await startPeers(bench, { folder: client.folder, home });
    const { files } = peers;
    await using direct = await connectMcp(mcpSocket, client.folder);
    const env = { PATH: process.env.PATH ?? '' };
    await using piped = await startMcp({
      program: process.execPath,
      args: [ringfence, ...through],
      cwd: client.folder,
      env,
    });
    const reads = {
      'read 4 KiB: our own protocol': () => dataOf(client.call('file_read', { path, maxLines: ++lines })),
      'read 4 KiB: MCP, at the socket': fresh(direct),
      'read 4 KiB: MCP, through ringfence mcp': fresh(piped),
      'read 4 KiB again, from the cache: MCP, at the socket': () => direct.call('file_read', { path }),
      ...(files && { [`read 4 KiB: ${files.name}`]: () => files.line.call('read_text_file', { path: full }) }),
    };
    const floor = 'read 4 KiB: our own protocol';
    const amount = bench.size(64, 3200);
    const crowds = Object.entries(reads).map(([name, call]) => [
      `${name}, ${CALLS_AT_ONCE} in flight`,
      crowd(amount, call),
    ]);
    bench.rates(
      await inTurns(Object.fromEntries(crowds) as Record<string, Subject>, {
        rounds: bench.size(2, 6),
        times: 1,
        warmRounds: bench.size(1, 8),
      }),
      {
        amount,
        unit: '/s',
        over: `${floor}, ${CALLS_AT_ONCE} in flight`,
        goals: { [`read 4 KiB: MCP, at the socket, ${CALLS_AT_ONCE} in flight`]: { least: 8000 } },
      },
    );
    const goals = { 'read 4 KiB: MCP, at the socket': { most: 0.3 } };
    bench.times(await inTurns(reads, { rounds: bench.size(2, 8), times: bench.size(10, 300) }), { over: floor, goals });
    await commands(bench, direct, peers.commands);
    await memory(bench, peers);
    const lists = {
      'list of tools: ringfence': () => direct.list(),
      ...(files && { [`list of tools: ${files.name}`]: () => files.line.list() }),
    };
    bench.times(await inTurns(lists, { rounds: bench.size(2, 8), times: bench.size(5, 50) }), {
      goals: { 'list of tools: ringfence': { most: 1 } },
    });
    const starts = {
      'start: a Node that writes a byte': started('-e', 'process.stdout.write("1")'),
      'start: ringfence mcp, to the answer to initialize': started(ringfence, ...through),
    };
    bench.times(
      await inTurns(starts, { rounds: bench.size(1, 6), times: bench.size(1, 4), warmRounds: bench.size(0, 1) }),
      {
        over: 'start: a Node that writes a byte',
      },
    );
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

export default defineBench({
  title: 'MCP',
  question:
    'What does an MCP client wait for, beside our own protocol, and beside the server that people use for files?',
  run,
});
