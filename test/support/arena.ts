/**
 * Runs hostile programs (test/fixtures/programs): in a real daemon for each identity that this machine can have, with
 * a bystander who must not notice, and without a sandbox as a control, so that a test can fail.
 */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import {
  canServeOthers,
  type DaemonOptions,
  dataOf,
  processesWith,
  startDaemon,
  type TestDaemon,
  temporaryDir,
  until,
} from './daemon.ts';
import { programs } from './programs.ts';

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** The owners of the daemon and of its workspace; the user who runs the tests if absent. */
export interface Identity {
  readonly name: string;
  readonly daemon?: Owner;
  readonly workspace?: Owner;
  /** Whether commands run as the real root, confined only by namespaces and filters. */
  readonly isRoot: boolean;
}

/** An unassigned id: the kernel needs no account for it. */
const OTHER: Owner = { uid: 64_123, gid: 64_123 };

/** The identities that this machine can have; prints why others are missing. */
export const IDENTITIES: readonly Identity[] = identities();

function identities(): Identity[] {
  if (process.getuid?.() !== 0) {
    console.warn('attack suites: only as this user; daemons of root, and of others, take root');
    return [{ name: 'an unprivileged user', isRoot: false }];
  }
  const own: Identity = { name: 'root, on its own workspace', isRoot: true };
  if (!canServeOthers) {
    console.warn('attack suites: only as root, since no other user may enter this checkout');
    return [own];
  }
  const asRoot = [own, { name: "root, on another user's workspace", workspace: OTHER, isRoot: false }];
  const entry = fileURLToPath(new URL('../../bin/ringfence.js', import.meta.url));
  const tried = spawnSync(process.execPath, [entry, '--version'], { ...OTHER, encoding: 'utf8' });
  if (tried.status === 0) return [...asRoot, { name: 'an unprivileged user', daemon: OTHER, isRoot: false }];
  const why = tried.error?.message ?? tried.stderr.trim().split('\n').at(-1);
  console.warn(`attack suites: not as an unprivileged user, who can't read this checkout: ${why}`);
  return asRoot;
}

/** A fixture to run: its file, its arguments, further input of the command. */
export interface Attack {
  readonly program: string;
  readonly args?: readonly (string | number)[];
  readonly input?: object;
}

export interface Arena {
  readonly identity: Identity;
  readonly daemon: TestDaemon;
  readonly client: Client;
  /** A folder beside the workspace with the same owner, with files `victim` and `doomed`. */
  readonly outside: string;
  /** Runs a fixture as a command. */
  run(attack: Attack): ReturnType<Client['call']>;
  /** The output of a plain command, which must succeed. */
  command(command: string): Promise<string>;
  /** The output of a fixture; throws if the call fails. */
  told(attack: Attack): Promise<string>;
  /** Runs a fixture without a sandbox, as the command's user, in a temporary folder. */
  control(attack: Attack): Promise<string>;
}

/** The results of a fixture's attempts, by name. */
export function attempts(output: string): Record<string, 'through' | 'refused'> {
  const lines = output.matchAll(/^(\S+): (through|refused)$/gm);
  return Object.fromEntries([...lines].map((it) => [it[1], it[2]])) as Record<string, 'through' | 'refused'>;
}

export const namesOf = (output: string, how: 'through' | 'refused'): string[] =>
  Object.entries(attempts(output))
    .filter(([, it]) => it === how)
    .map(([name]) => name);

/** Declares the tests of `body` once per identity, each with its own daemon. */
export function eachIdentity(options: DaemonOptions, body: (arena: Arena) => void): void {
  describe.each(IDENTITIES)('as $name', (identity) => {
    const arena = new LiveArena(identity);
    beforeAll(() => arena.open(options));
    afterAll(() => arena.close());
    body(arena);
  });
}

class LiveArena implements Arena {
  readonly identity: Identity;
  readonly #folders: string[] = [];
  #daemon: TestDaemon | undefined;
  #client: Client | undefined;
  #outside = '';

  constructor(identity: Identity) {
    this.identity = identity;
  }

  get daemon(): TestDaemon {
    return this.#daemon as TestDaemon;
  }
  get client(): Client {
    return this.#client as Client;
  }
  get outside(): string {
    return this.#outside;
  }

  async open(options: DaemonOptions): Promise<void> {
    const { daemon, workspace } = this.identity;
    this.#outside = this.#folder('outside');
    for (const name of ['victim', 'doomed']) this.#file(join(this.#outside, name), 'as it was\n');
    const own = this.#folder('ws');
    this.#give(own);
    this.#daemon = await startDaemon({ ...options, workspace: own, ...(daemon && { owner: daemon }) });
    if (workspace) this.#give(own);
    cpSync(programs, join(own, 'programs'), { recursive: true });
    this.#client = await this.#daemon.connect();
    await this.command('true');
  }

  async close(): Promise<void> {
    await this.#client?.[Symbol.asyncDispose]();
    await this.#daemon?.[Symbol.asyncDispose]();
    for (const it of this.#folders) rmSync(it, { recursive: true, force: true });
  }

  run({ program, args = [], input }: Attack): ReturnType<Client['call']> {
    const command = [interpreterOf(program), `programs/${program}`, ...args.map(quoted)].join(' ');
    return this.client.call('terminal_execute', { command, timeout: 20_000, ...input } as never) as never;
  }

  async command(command: string): Promise<string> {
    return (await dataOf(this.client.call('terminal_execute', { command }))).stdout;
  }

  async told(attack: Attack): Promise<string> {
    const { stdout, stderr } = await dataOf<{ stdout: string; stderr: string }>(this.run(attack) as never);
    return stdout + stderr;
  }

  control({ program, args = [] }: Attack): Promise<string> {
    const cwd = this.#folder('control');
    const { daemon, workspace } = this.identity;
    const options = { cwd, ...(daemon ?? workspace), env: { PATH: '/usr/bin:/bin:/usr/sbin' }, timeout: 20_000 };
    const argv = [join(programs, program), ...args.map(String)];
    return new Promise((resolve) => {
      let output = '';
      const child = spawn(interpreterOf(program), argv, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
      for (const it of [child.stdout, child.stderr]) it.on('data', (chunk) => (output += chunk));
      // Its output counts, not its exit code; and surviving processes may keep its output open.
      child.once('close', () => resolve(output));
      child.once('exit', () => setTimeout(() => resolve(output), HELD_MS));
    });
  }

  #folder(name: string): string {
    const folder = temporaryDir(name);
    this.#folders.push(folder);
    this.#give(folder);
    return folder;
  }

  #file(path: string, content: string): void {
    writeFileSync(path, content);
    this.#give(path);
  }

  /** Gives a path to the commands' user. */
  #give(path: string): void {
    const owner = this.identity.daemon ?? this.identity.workspace;
    if (owner) chownSync(path, owner.uid, owner.gid);
    else chmodSync(path, 0o700);
  }
}

/** Milliseconds to wait for the output of a control after its end. */
const HELD_MS = 500;

const interpreterOf = (program: string): string => (program.endsWith('.pl') ? 'perl' : 'bash');
const quoted = (it: string | number): string => `'${String(it).replaceAll("'", "'\\''")}'`;

/** What a bystander of an attack observed. */
export interface Beside {
  /** The longest time in ms that the gateway took to answer `status`, less the time that it or this process waited for a processor. */
  readonly stallMs: number;
  /** The longest time in ms that another session waited for a call. */
  readonly callMs: number;
  readonly calls: number;
}

/** Runs `attack` while another session makes requests and calls all the time. */
export async function beside<T>({ daemon }: Arena, attack: () => PromiseLike<T>): Promise<{ result: T } & Beside> {
  await using asking = await daemon.connect();
  await using calling = await daemon.connect();
  await calling.call('file_list', { path: '.' });
  const own = new OwnStalls();
  let over = false;
  const seen = { stallMs: 0, callMs: 0, calls: 0 };
  const repeat = async (work: () => Promise<void>) => {
    do await work();
    while (!over);
  };
  const asks = repeat(async () => {
    const from = performance.now();
    const waitedMs = processorWaitMs(daemon.pid);
    await asking.request('status', {});
    const othersMs = own.since(from) + processorWaitMs(daemon.pid) - waitedMs;
    seen.stallMs = Math.max(seen.stallMs, performance.now() - from - othersMs);
    await new Promise((resolve) => setTimeout(resolve, 5));
  });
  const calls = repeat(async () => {
    const from = performance.now();
    const { success } = await calling.call('file_list', { path: '.' });
    if (!success) throw new Error('a call beside an attack failed');
    seen.callMs = Math.max(seen.callMs, performance.now() - from);
    seen.calls += 1;
    await new Promise((resolve) => setTimeout(resolve, 5));
  });
  try {
    const result = await attack();
    over = true;
    await Promise.all([asks, calls]);
    return { result, ...seen };
  } finally {
    over = true;
    await Promise.allSettled([asks, calls]);
    own[Symbol.dispose]();
  }
}

/** Milliseconds since its start that the main thread of a process was runnable but did not run. */
function processorWaitMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
}

/**
 * Milliseconds that a busy machine adds to anything that starts processes: ten times the present duration of an idle
 * one, 30 ms on an idle machine. Promises in seconds assume that the machine has free processors.
 */
export function machineLateMs(): number {
  const took = Array.from({ length: 5 }, () => {
    const from = performance.now();
    spawnSync('/bin/true');
    return performance.now() - from;
  });
  return 10 * Math.max(...took);
}

const TICK_MS = 2;

/** Measures how long this process did not run, which is not the gateway's fault. */
class OwnStalls implements Disposable {
  readonly #timer: NodeJS.Timeout;
  #stalls: { at: number; ms: number }[] = [];
  #last = performance.now();

  constructor() {
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  #tick(): void {
    const now = performance.now();
    const ms = now - this.#last - TICK_MS;
    this.#last = now;
    if (ms > TICK_MS) this.#stalls = [...this.#stalls.slice(-1000), { at: now, ms }];
  }

  /** Milliseconds of stalls since `from`. */
  since(from: number): number {
    this.#tick();
    return this.#stalls.filter(({ at }) => at >= from).reduce((sum, { ms }) => sum + ms, 0);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Waits until no process has `mark` in its command line. */
export const gone = (mark: string, withinMs = 1000): Promise<void> =>
  until(() => processesWith(mark).length === 0, withinMs);

/** The files of a folder with their content, to compare before and after. */
export function contentOf(folder: string): Record<string, string> {
  const names = readdirSync(folder);
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}
