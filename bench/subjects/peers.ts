import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { rgPath } from '@vscode/ripgrep';
import { Piscina } from 'piscina';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { dataOf, temporaryDir } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';
import { commandFloor } from '../floors/command.ts';
import { gitStatus, makeRepository } from '../floors/git.ts';
import { createIsolates } from '../floors/isolate.ts';
import { ripgrep } from '../floors/ripgrep.ts';
import { makeTree } from '../floors/tree.ts';
import { inTurns, type Subject } from '../measure.ts';
import { type Peer, type Peers, startPeers, startSandboxRuntime } from '../peers.ts';
import { here, readJson } from '../results.ts';

type Folder = Client & { readonly folder: string };

/** Subjects by name; the first is the floor. */
type Task = Record<string, Subject>;

const versionOf = (name: string) => readJson<{ version: string }>(here(`../node_modules/${name}/package.json`)).version;
const firstLine = (program: string) => execFileSync(program, ['--version'], { encoding: 'utf8' }).split('\n')[0] ?? '';

const by = (peer: Peer | undefined, task: string, run: (line: Peer['line']) => Promise<unknown>): Task =>
  peer ? { [`${task}: ${peer.name}`]: () => run(peer.line) } : {};

function fileTasks(client: Folder, { files, commander, ours }: Peers): Task[] {
  const [path, full] = ['four-kib.txt', join(client.folder, 'four-kib.txt')];
  const content = `${'x'.repeat(63)}\n`.repeat(64);
  writeFileSync(full, content);
  const to = join(client.folder, 'to.txt');
  return [
    {
      'read 4 KiB: node:fs, in this process': () => readFile(full, 'utf8'),
      'read 4 KiB: ringfence': () => dataOf(client.call('file_read', { path }, { cache: false })),
      'read 4 KiB: ringfence, from its cache': () => dataOf(client.call('file_read', { path })),
      // Its calls are cached by default.
      ...by(ours, 'read 4 KiB, from its cache', (it) => it.call('file_read', { path })),
      ...by(files, 'read 4 KiB', (it) => it.call('read_text_file', { path: full })),
      ...by(commander, 'read 4 KiB', (it) => it.call('read_file', { path: full })),
    },
    {
      'write 4 KiB: node:fs, in this process': () => writeFile(to, content),
      'write 4 KiB: ringfence, with undo': () => dataOf(client.call('file_write', { path: 'to.txt', content })),
      ...by(ours, 'write 4 KiB', (it) => it.call('file_write', { path: 'to.txt', content })),
      ...by(files, 'write 4 KiB', (it) => it.call('write_file', { path: to, content })),
      ...by(commander, 'write 4 KiB', (it) => it.call('write_file', { path: to, content, mode: 'rewrite' })),
    },
  ];
}

function searchTasks(client: Folder, { files }: Peers): Task[] {
  return [
    {
      [`find *.ts: bare ${firstLine(rgPath)}`]: () =>
        ripgrep(join(client.folder, 'tree'), '--files', '-g', '**/f1*1.ts'),
      'find *.ts: ringfence': () =>
        dataOf(client.call('file_glob', { pattern: '**/f1*1.ts', path: 'tree' }, { cache: false })),
      ...by(files, 'find *.ts', (it) =>
        it.call('search_files', { path: join(client.folder, 'tree'), pattern: '**/f1*1.ts' }),
      ),
    },
    {
      [`status: bare ${firstLine('git')}`]: () => gitStatus(client.folder),
      'status: ringfence, in its sandbox': () => dataOf(client.call('git_status', {})),
    },
  ];
}

async function commandTask(
  client: Folder,
  { commands, commander, ours }: Peers,
  runtime: Awaited<ReturnType<typeof startSandboxRuntime>>,
): Promise<Task> {
  const floor = commandFloor(client.folder);
  return {
    [`run true: ${firstLine(findProgram('bwrap') ?? 'bwrap')}, the same mounts`]: floor.bubblewrap,
    'run true: spawn, no sandbox': floor.bare,
    'run true: ringfence': () => dataOf(client.call('terminal_execute', { command: 'true' })),
    ...by(ours, 'run true', (it) => it.call('terminal_execute', { command: 'true' })),
    ...(runtime && { [`run true: ${runtime.name}`]: () => runtime.run('true') }),
    ...by(commands, 'run true (no sandbox)', (it) => it.call('run_command', { command: 'true' })),
    ...by(commander, 'run true (no sandbox)', (it) => it.call('start_process', { command: 'true', timeout_ms: 5000 })),
  };
}

/** Measures subjects in turns; reports and leaves out a peer whose tool fails. */
async function measure(bench: Context, task: Task, slow: boolean): Promise<void> {
  const working: Task = {};
  for (const [name, run] of Object.entries(task)) {
    try {
      await run();
      working[name] = run;
    } catch (error) {
      bench.skip(name, (error as Error).message);
    }
  }
  const times = slow ? bench.size(1, 4) : bench.size(2, 10);
  const taken = await inTurns(working, { rounds: bench.size(1, 8), times });
  const [floor] = Object.keys(working);
  if (floor !== undefined) bench.times(taken, { over: floor });
}

async function run(bench: Context): Promise<void> {
  const client = await bench.client('peers');
  const home = temporaryDir('peers-home');
  try {
    await using peers = await startPeers(bench, { folder: client.folder, home });
    for (const task of fileTasks(client, peers)) await measure(bench, task, false);
    // Made only now: the daemon looks at each new file, which would slow the reads.
    mkdirSync(join(client.folder, 'tree'));
    makeTree(join(client.folder, 'tree'), bench.size(200, 5000));
    makeRepository(client.folder, bench.size(40, 200));
    for (const task of searchTasks(client, peers)) await measure(bench, task, false);
    await using runtime = (await startSandboxRuntime(bench, client.folder)) ?? null;
    await measure(bench, await commandTask(client, peers, runtime ?? undefined), true);
    using isolates = await createIsolates();
    const code = 'Array.from({ length: 1000 }, (_, i) => i).reduce((a, b) => a + b)';
    await measure(
      bench,
      {
        [`a program: isolated-vm ${versionOf('isolated-vm')}, a new isolate`]: () => isolates.run(code),
        'a program: ringfence code_run': () => dataOf(client.call('code_run', { code: `return ${code}` })),
      },
      true,
    );
    const pool = new Piscina({ filename: import.meta.resolve('../floors/echo-thread.ts'), maxThreads: 2 });
    writeFileSync(join(client.folder, 'empty'), '');
    await measure(
      bench,
      {
        [`a job: Piscina ${versionOf('piscina')}, in this process`]: () => pool.run({}),
        'a job: ringfence, an empty file in its host': () =>
          dataOf(client.call('file_read', { path: 'empty' }, { cache: false })),
      },
      false,
    );
    await pool.destroy();
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

export default defineBench({
  title: 'Peers',
  question: 'What do the tools that people use today, and their bare parts, take for the same?',
  run,
});
