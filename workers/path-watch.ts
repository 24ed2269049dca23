/** What the commands of a host meet at masks and read-only mounts, as a thread tells that hears of their calls (decision 0015). */
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { ToolError } from '../src/errors.ts';
import type { Limits } from '../src/limits.ts';
import type { Powers } from '../src/powers.ts';
import { NO_MASKS } from '../src/sandbox/masks.ts';
import type { MetOften, PathEvidence, PathRun } from '../src/sandbox/path-evidence.ts';
import { greetingOf } from '../src/sandbox/path-greeting.ts';
import { openLine } from '../src/sandbox/path-notices.ts';
import { pathProgram } from '../src/sandbox/path-program.ts';
import type { Walls } from '../src/sandbox/path-walls.ts';
import { PLACES, placeOf } from './path-places.ts';

export interface PathSetup {
  readonly line: number;
  /** In the place of a token stands that token, when its command is gone and met nothing: most do, and a message costs more. */
  readonly gone: Int32Array;
  /** The same where something is looked at for it, before the call that it comes of goes on: only then there may be something to tell. */
  readonly looked: Int32Array;
  readonly parent?: number;
}
/** Without walls: the same as before. */
export type ToPaths = { readonly begin: number; readonly walls?: Walls } | { readonly end: number };
export type FromPaths =
  | { readonly token: number; readonly met: readonly MetOften[]; readonly isFast: boolean }
  | { readonly token: number; readonly isLost: true };

/** A command that meets something for certain: a mount that every machine has is "hidden" to it. */
const TRIAL: Walls = {
  ...{ workspace: '/proc', system: [] },
  masks: { ...NO_MASKS, hidden: [{ path: '', type: 'directory' }] },
};
const TRIAL_COMMAND = ['/bin/bash', '--norc', '--noprofile', '-c', ': </proc/version'];
const FORGET_MS = 50;
/** On a machine that is busy. */
const TRIAL_MS = 5_000;
const TRIAL_FDS = { line: 3, self: 4 };

export class PathWatch implements PathEvidence {
  isOn = false;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #programs = new Map<number, number>();
  readonly #asked = new Map<number, (answer: FromPaths) => void>();
  readonly #gone = new Int32Array(new SharedArrayBuffer(4 * PLACES));
  readonly #looked = new Int32Array(new SharedArrayBuffer(4 * PLACES));
  readonly #parent: number | undefined;
  #started: Promise<void> | undefined;
  #worker: Worker | undefined;
  /** What the thread was told last. */
  #walls = '';
  #theirs = -1;
  #tokens = 0;
  #isFast = false;

  /** `parent`: a socket whose other end is closed when this process is to end. */
  constructor({ limits, powers, parent }: { limits: Limits; powers: Powers; parent?: number }) {
    this.#limits = limits;
    this.#powers = powers;
    this.#parent = parent;
  }

  ready(): Promise<void> {
    // No thread, no descriptors: nothing is told.
    this.#started ??= this.#start().catch(() => {});
    return this.#started;
  }

  descriptorsAt(line: number): readonly [line: number, program: number] {
    const program = this.#programs.get(line) ?? toFile(pathProgram({ line, self: line + 1 }));
    this.#programs.set(line, program);
    return [this.#theirs, program];
  }

  open(walls: Walls): PathRun {
    const token = this.#nextToken();
    const told = Promise.withResolvers<FromPaths>();
    let isTold = false;
    this.#asked.set(token, (answer) => {
      isTold = true;
      told.resolve(answer);
    });
    return {
      greeting: greetingOf(token, walls.masks.hidden.length > 0),
      begin: () => this.#begin(token, walls),
      met: async (withinMs = this.#limits.pathEvidenceMs) => {
        if (!isTold && Atomics.load(this.#looked, placeOf(token)) !== token) return [];
        const answer = await Promise.race([told.promise, this.#isGone(token, withinMs)]);
        if (!answer) return [];
        if ('met' in answer) return answer.met;
        throw new ToolError('SANDBOX_UNAVAILABLE', 'there was no descriptor left for a command, whose calls failed');
      },
      [Symbol.dispose]: () => {
        // Of most it is known by then that they are gone.
        this.#powers.after(FORGET_MS, () => {
          const isGone = Atomics.load(this.#gone, placeOf(token)) === token;
          if (this.#asked.delete(token) && !isGone) this.#send({ end: token });
        });
      },
    };
  }

  /** Of a place that no command has: one may run while a thousand others come and go. */
  #nextToken(): number {
    const taken = new Set([...this.#asked.keys()].map(placeOf));
    do this.#tokens = (this.#tokens % 0x7fff_fffe) + 1;
    while (taken.has(placeOf(this.#tokens)) && taken.size < PLACES);
    return this.#tokens;
  }

  #begin(token: number, walls: Walls): void {
    const text = JSON.stringify(walls);
    this.#send({ begin: token, ...(text !== this.#walls && { walls }) });
    this.#walls = text;
  }

  /** Settles when it is known that it met nothing, or nothing is known for too long. */
  async #isGone(token: number, withinMs: number): Promise<undefined> {
    const place = placeOf(token);
    const now = Atomics.load(this.#gone, place);
    if (now !== token) await Atomics.waitAsync(this.#gone, place, now, withinMs).value;
    if (Atomics.load(this.#gone, place) === token) this.#asked.delete(token);
  }

  #send(message: ToPaths): void {
    this.#worker?.postMessage(message);
  }

  async #start(): Promise<void> {
    const parent = this.#parent;
    const [line, theirs] = process.arch === 'x64' ? (openLine() ?? []) : [];
    if (line === undefined || theirs === undefined) return;
    this.#theirs = theirs;
    const worker = new Worker(new URL(`./path-thread${extname(import.meta.url)}`, import.meta.url), {
      workerData: {
        line,
        gone: this.#gone,
        looked: this.#looked,
        ...(parent !== undefined && { parent }),
      } satisfies PathSetup,
      // Listeners come by a socket: of each that it closes Node would warn.
      trackUnmanagedFds: false,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB, maxYoungGenerationSizeMb: 2 },
    });
    this.#worker = worker;
    worker.unref();
    worker.on('message', (message: FromPaths) => this.#take(message));
    const ended = new Promise<false>((resolve) => {
      worker.once('error', () => resolve(false)).once('exit', () => resolve(false));
    });
    this.isOn = await Promise.race([this.#try(), ended]);
    if (this.isOn) void ended.then(() => this.#fail());
    else {
      await worker.terminate();
      this.#worker = undefined;
      for (const fd of [line, theirs, ...this.#programs.values()]) closeSync(fd);
    }
  }

  /** Calls of commands wait for a thread that is no more: they end with this one, which started them, and their jobs as in a crash. */
  #fail(): void {
    process.exit(1);
  }

  #take(message: FromPaths): void {
    if ('met' in message) this.#isFast = message.isFast;
    this.#asked.get(message.token)?.(message);
    // It has forgotten the command.
    if ('met' in message) this.#asked.delete(message.token);
  }

  /** Whether the machine has all that it takes, found out by doing it. */
  async #try(): Promise<boolean> {
    using run = this.open(TRIAL);
    run.begin();
    const [line, program] = this.descriptorsAt(TRIAL_FDS.line);
    const [name, value] = run.greeting;
    const child = this.#powers.spawn(`/proc/self/fd/${TRIAL_FDS.self}`, TRIAL_COMMAND, {
      stdio: ['ignore', 'ignore', 'ignore', line, program],
      env: { [name]: value },
    });
    const isDone = await new Promise<boolean>((resolve) => {
      child.once('error', () => resolve(false)).once('exit', (code) => resolve(code === 0));
    });
    const met = isDone ? await run.met(TRIAL_MS) : [];
    return this.#isFast && met.some((it) => it.path === TRIAL.workspace);
  }
}

/** Of the thread: 2 MiB for each command at worst. */
const HEAP_MB = 128;

/** A program without a name, which is gone with this process. */
function toFile(program: Buffer): number {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-'));
  try {
    const path = join(folder, 'first');
    writeFileSync(path, program, { mode: 0o500 });
    return openSync(path, 'r');
  } finally {
    rmSync(folder, { recursive: true });
  }
}
