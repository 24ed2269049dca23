/** Runs one command in a sandbox of its own: starts it, feeds it, reads its output up to its bounds, ends it. Runs in an execute host. */

import type { ChildProcess } from 'node:child_process';
import type { EventEmitter } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import type { Denial } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { onAbort, type Powers, settlesWithin } from '../../base/powers.ts';
import type { TakenOver } from '../git/config/take-over.ts';
import type { Masks } from '../masks.ts';
import type { MeasuredUse } from '../watchdog.ts';
import { ConfinedRun } from './confined-run.ts';
import { HeadAndTail } from './head-and-tail.ts';
import { type NetworkEvidence, openNetworkEvidence } from './network-evidence.ts';
import { OutputPieces } from './output-pieces.ts';
import { FLOOD_PIPE_BYTES } from './output-pipe.ts';
import { Overlay } from './overlay.ts';
import { OverlayWatch } from './overlay-watch.ts';
import type { CommandRequest, CommandSetup, PipedSandbox } from './request.ts';
import { ScratchWatch } from './scratch.ts';
import { begin, shapeOf } from './start.ts';

/** Why a command must end; it may get SIGTERM first. */
export class Aborted extends ToolError {
  /** Time from SIGTERM to SIGKILL; 0 sends SIGKILL at once. */
  readonly graceMs: number;

  constructor(graceMs: number) {
    super('CANCELLED', 'aborted');
    this.graceMs = graceMs;
  }
}

export interface CommandOutcome {
  /** 128 + n if signal n ended it; undefined if we killed it. */
  readonly exitCode: number | undefined;
  readonly signal?: string | undefined;
  readonly stdout: string;
  /** Standard output unchanged, if `captureBytes` was set. */
  readonly captured?: Buffer;
  readonly stderr: string;
  readonly durationMs: number;
  /** What its processes used, as far as observed; at least what its waited-for processes used. */
  readonly used: MeasuredUse;
  /** Accesses that the kernel reports as denied. */
  readonly denied: readonly Denial[];
  /** Ports of its loopback that it connected to and at which nothing listened. */
  readonly refusedPorts: readonly number[];
  /** What its sandbox hid or made read-only. */
  readonly withheld: Masks;
  /** Hidden files that git tracks. */
  readonly tracked: readonly string[];
  /** Which of its changes of repository configs were taken over. */
  readonly gitConfigs: readonly TakenOver[];
  /** Whether its scratch space was ever full. */
  readonly scratchFull: boolean;
  /** Parts of its home that were removed before it began. */
  readonly homeRemoved: readonly string[];
  readonly outputBytes: number;
  readonly truncated: boolean;
  /** Why the command was killed, if it was; for `exceeded`, `used` tells the limit. */
  readonly ended: 'exit' | 'aborted' | 'output' | 'exceeded';
}

/** Runs a command to its end; also resolves if it was killed. Throws SANDBOX_UNAVAILABLE if its sandbox could not be built. */
export async function runCommand(
  request: CommandRequest,
  setup: CommandSetup,
  powers: Powers,
): Promise<CommandOutcome> {
  const startedAt = powers.monotonicMs();
  const taken = takeOrBegin(request, setup, powers);
  const begun = taken instanceof Promise ? await taken : taken;
  using run = new ConfinedRun(begun, request, setup, powers);
  setup.waiting?.prepareIn(SHORT_MS, request);
  const output = collect(begun, request, { limits: setup.limits, powers });
  feed(run.child, request.stdin);
  using evidence = new Evidence(run, request, { limits: setup.limits, powers });
  output.onOverflow = () => run.stop();
  using size = request.overlay && new OverlayWatch(request.overlay, { ...setup, powers }, () => run.stop());
  using _ = stopOnAbort(request.signal, run);
  try {
    const closed = Promise.all([run.child, ...output.pipes].map((it) => closeOf(it)));
    await run.ended;
    output.release();
    // A process that bwrap has not killed yet may hold the pipes.
    await settlesWithin(closed, setup.limits.commandDrainMs, powers);
    output.flush();
    const settled = await run.settle(() => output.stderr.text(), request.overlay && Overlay.refusal);
    const { exitCode, signal } = settled;
    const used = size?.exceeded ? { ...settled.used, exceeded: size.exceeded } : settled.used;
    const gitConfigs = await run.copies.takeOver('ended');
    const overflowed = output.overflowed ? 'output' : undefined;
    const killed = request.signal.aborted ? 'aborted' : used.exceeded ? 'exceeded' : overflowed;
    return {
      exitCode: killed ? undefined : exitCode,
      signal,
      ...toTold(output, request),
      durationMs: Math.round(powers.monotonicMs() - startedAt),
      used,
      gitConfigs,
      denied: evidence.denied,
      refusedPorts: [...begun.refusedPorts],
      scratchFull: evidence.scratchFull,
      withheld: begun.shape.withheld,
      tracked: begun.shape.tracked,
      homeRemoved: run.homeRemoved,
      ended: killed ?? 'exit',
    };
  } finally {
    for (const pipe of output.pipes) pipe.destroy();
    // After the result has been sent.
    setup.waiting?.prepareIn(0, request);
  }
}

/** Ends a command when its caller aborts. */
const stopOnAbort = (signal: AbortSignal, run: ConfinedRun): Disposable =>
  onAbort(signal, () => run.stop(signal.reason instanceof Aborted ? signal.reason.graceMs : 0));

/** What the kernel tells of a command's sandbox: connections that it refused, and whether the scratch space was full. */
class Evidence implements Disposable {
  readonly #scratch: ScratchWatch;
  #network: NetworkEvidence | undefined;

  constructor(run: ConfinedRun, { readOnly }: CommandRequest, { limits, powers }: { limits: Limits; powers: Powers }) {
    this.#scratch = new ScratchWatch(limits, powers);
    run.onInit((init) => {
      this.#network = openNetworkEvidence(init);
      if (!readOnly) this.#scratch.begin(init);
    });
  }

  get denied(): readonly Denial[] {
    return this.#network?.denied() ?? [];
  }

  get scratchFull(): boolean {
    return this.#scratch.wasFull;
  }

  [Symbol.dispose](): void {
    this.#network?.[Symbol.dispose]();
    this.#scratch[Symbol.dispose]();
  }
}

/** Most commands take less time, and would compete with the build of the next sandbox; a longer command suffers little from it. */
const SHORT_MS = 15;

/** Returns synchronously if git's index needs no settling. */
function takeOrBegin(
  request: CommandRequest,
  setup: CommandSetup,
  powers: Powers,
): PipedSandbox | Promise<PipedSandbox> {
  const settling = setup.git?.settle(request.masks);
  return settling
    ? settling.then(() => takeOrBeginNow(request, setup, powers))
    : takeOrBeginNow(request, setup, powers);
}

function takeOrBeginNow(
  request: CommandRequest,
  setup: CommandSetup,
  powers: Powers,
): PipedSandbox | Promise<PipedSandbox> {
  const shape = shapeOf(request, setup);
  if (request.overlay) return begin(shape, request, setup, powers);
  const taken = setup.waiting?.take(request, shape);
  if (!(taken instanceof Promise)) return taken ?? begin(shape, request, setup, powers);
  // The masks may have changed meanwhile.
  return taken.then((it) => it ?? begin(shapeOf(request, setup), request, setup, powers));
}

function toTold({ stdout, stderr }: Output, { captureBytes }: CommandRequest) {
  return {
    stdout: captureBytes === undefined ? stdout.text() : '',
    ...(captureBytes !== undefined && { captured: stdout.head() }),
    stderr: stderr.text(),
    outputBytes: stdout.bytesTotal + stderr.bytesTotal,
    truncated: stdout.truncated || stderr.truncated,
  };
}

interface Output {
  readonly stdout: HeadAndTail;
  readonly stderr: HeadAndTail;
  readonly pipes: readonly Readable[];
  overflowed: boolean;
  onOverflow: () => void;
  /** From now on reads everything at once: the command has ended, and its pipes hold little. More comes if it is being killed. */
  release(): void;
  /** Passes on what was read so far. */
  flush(): void;
}

function collect(
  begun: PipedSandbox,
  request: CommandRequest,
  { limits, powers }: { limits: Limits; powers: Powers },
): Output {
  const { onOutput, onReport, bounds, captureBytes, outputBytesMax } = request;
  const keptBytes = Math.ceil(bounds.outputBytes / 2);
  const bytesMax = outputBytesMax ?? captureBytes ?? limits.commandOutputBytesMax;
  const pipes: Readable[] = [];
  const output: Output = {
    pipes,
    stdout: new HeadAndTail(captureBytes === undefined ? keptBytes : 2 * captureBytes),
    stderr: new HeadAndTail(keptBytes),
    overflowed: false,
    onOverflow() {},
    flush() {
      pieces?.flush();
    },
    release() {
      // The contents of the pipes, and what was just read.
      ahead = limits.outputWindowBytes + pipes.length * FLOOD_PIPE_BYTES;
      resume();
    },
  };
  /** Bytes that may be sent without waiting for room after the command has ended. */
  let ahead: number | undefined;
  const resume = () => {
    for (const pipe of pipes) pipe.resume();
  };
  const pauseUntil = (room: Promise<void>) => {
    if (ahead !== undefined) return;
    for (const pipe of pipes) pipe.pause();
    void room.then(resume);
  };
  const pieces = onOutput && new OutputPieces({ onPiece: onOutput, onFull: pauseUntil }, powers);
  const total = () => output.stdout.bytesTotal + output.stderr.bytesTotal;
  for (const stream of ['stdout', 'stderr'] as const) {
    const collected = output[stream];
    const take = (chunk: Buffer) => {
      const isShown = stream === 'stderr' || captureBytes === undefined;
      if (isShown && total() < limits.resultLogBytesMax && (ahead === undefined || ahead > 0)) {
        if (ahead !== undefined) ahead -= chunk.length;
        pieces?.push(stream, chunk);
      }
      collected.push(chunk);
      if (stream === 'stdout') onReport?.(chunk);
      if (output.overflowed || total() <= bytesMax) return;
      output.overflowed = true;
      output.onOverflow();
    };
    const pipe = begun[stream].read(begun.child[stream], take);
    if (pipe) pipes.push(pipe);
  }
  return output;
}

function feed(child: ChildProcess, stdin: CommandRequest['stdin']): void {
  if (stdin === undefined) return;
  // EPIPE: the command ended without reading all of it, as `head -1` does.
  const input = (child.stdin as Writable).on('error', () => {});
  if (typeof stdin === 'string') input.end(stdin);
  else stdin.pipe(input);
}

const closeOf = (it: EventEmitter): Promise<void> => new Promise((resolve) => it.once('close', () => resolve()));
