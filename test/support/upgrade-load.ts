/** Calls at a fixed rate while a daemon is upgraded; each edit appends a line that no other appends. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '../../src/client/client.ts';
import { runCli } from './cli.ts';
import type { TestDaemon } from './daemon.ts';

export interface Load {
  readonly callsPerSecond: number;
  readonly clients: number;
  /** One of so many calls edits a file; the others read. */
  readonly callsPerEdit: number;
  readonly upgrades: number;
  /** Milliseconds from the end of one upgrade to the next. */
  readonly betweenMs: number;
  /** How long sessions wait for their clients; 0 for clients that don't resume. */
  readonly resumeMs: number;
}

export interface LoadResult {
  readonly calls: number;
  /** Errors of calls that did not succeed. */
  readonly failed: readonly string[];
  /** Lines of successful calls that are missing. */
  readonly lost: number;
  /** Lines that are there more than once, or of no successful call. */
  readonly doubled: number;
  /** Milliseconds from the time at which each call was due to its result, in ascending order. */
  readonly latencies: readonly number[];
  /** Milliseconds that each upgrade took. */
  readonly upgrades: readonly number[];
}

const END = 'end of file';

/** A client that makes the calls; `call` resolves to the error of a call that does not succeed, and rejects if it is lost. */
export interface Caller extends AsyncDisposable {
  call(tool: 'file_read' | 'file_edit', input: object): Promise<string | undefined>;
}

async function connectOwn({ socket, workspace }: TestDaemon, resumeMs: number): Promise<Caller> {
  const client = await createClient({ socket, workspace, resumeMs });
  return {
    async call(tool, input) {
      const result = await client.call(tool as string, input, { cache: false });
      return result.success ? undefined : `${result.error.code}: ${result.error.message}`;
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

export async function loadDuringUpgrades(
  daemon: TestDaemon,
  load: Load,
  connect: () => Promise<Caller> = () => connectOwn(daemon, load.resumeMs),
): Promise<LoadResult> {
  const { clients: count, callsPerEdit, callsPerSecond, upgrades, betweenMs } = load;
  await using clients = new AsyncDisposableStack();
  const appenders = await Promise.all(
    Array.from({ length: count }, async (_, at) => {
      const name = `lines-${at}`;
      writeFileSync(join(daemon.workspace, name), `${END}\n`);
      return new Appender(clients.use(await connect()), name);
    }),
  );
  let isOver = false;
  const start = performance.now();
  const calling = (async () => {
    for (let due = 0; !isOver; due++) {
      const dueMs = start + (due * 1000) / callsPerSecond;
      await pause(Math.max(0, dueMs - performance.now()));
      appenders[due % count]?.call(dueMs, Math.floor(due / count) % callsPerEdit !== 0);
    }
  })();
  const took: number[] = [];
  try {
    for (let done = 0; done < upgrades; done++) {
      await pause(betweenMs);
      const from = performance.now();
      const { code, stderr } = await runCli(daemon, ['upgrade']);
      if (code !== 0) throw new Error(`upgrade ${done + 1} failed: ${stderr}`);
      took.push(performance.now() - from);
    }
    await pause(betweenMs);
  } finally {
    isOver = true;
    await calling;
  }
  for (const it of appenders) await it.settled();
  const latencies = appenders.flatMap((it) => it.latencies).sort((a, b) => a - b);
  const found = appenders.map((it) => it.compare(daemon.workspace));
  return {
    calls: latencies.length,
    failed: appenders.flatMap((it) => it.failed),
    lost: found.reduce((sum, it) => sum + it.lost, 0),
    doubled: found.reduce((sum, it) => sum + it.doubled, 0),
    latencies,
    upgrades: took,
  };
}

class Appender {
  readonly latencies: number[] = [];
  readonly failed: string[] = [];
  readonly #client: Caller;
  readonly #file: string;
  readonly #appended = new Set<string>();
  readonly #calls: Promise<void>[] = [];

  constructor(client: Caller, file: string) {
    this.#client = client;
    this.#file = file;
  }

  call(dueMs: number, isRead: boolean): void {
    const line = `line ${this.#calls.length}`;
    const edit = { type: 'replace' as const, search: END, replace: `${line}\n${END}` };
    const result = isRead
      ? this.#client.call('file_read', { path: this.#file, maxLines: 1 })
      : this.#client.call('file_edit', { path: this.#file, operations: [edit] });
    this.#calls.push(
      result.then(
        (it) => {
          this.latencies.push(performance.now() - dueMs);
          if (it !== undefined) this.failed.push(it);
          else if (!isRead) this.#appended.add(line);
        },
        (error: Error) => void this.failed.push(error.message),
      ),
    );
  }

  async settled(): Promise<void> {
    await Promise.all(this.#calls);
  }

  compare(workspace: string): { lost: number; doubled: number } {
    const lines = readFileSync(join(workspace, this.#file), 'utf8').split('\n').slice(0, -2);
    const there = new Set(lines);
    const lost = [...this.#appended].filter((it) => !there.has(it)).length;
    return { lost, doubled: lines.length - [...there].filter((it) => this.#appended.has(it)).length };
  }
}
