/** Runs targets in a thread and notes what breaks: an exception, a broken law, an input that hangs or ends the thread. */
import { Worker } from 'node:worker_threads';
import { InputSlot } from './input-slot.ts';
import { FUZZ_TARGETS } from './targets.ts';

export interface FuzzFinding {
  readonly target: string;
  readonly input: Uint8Array;
  readonly failure: string;
}

export interface FuzzCount {
  readonly target: string;
  readonly cases: number;
  /** The outcomes that were seen, each with its first input. */
  readonly outcomes: ReadonlyMap<string, Uint8Array>;
}

export type FuzzEvent = { readonly finding: FuzzFinding } | { readonly counts: readonly FuzzCount[] };

export interface FuzzJob {
  /** The module with FUZZ_TARGETS. */
  readonly module: string;
  readonly targets: readonly string[];
  readonly seed: number;
  /** Cases of each target, if the end does not come before. */
  readonly cases: number;
  readonly endsAtMs: number;
  readonly slot: SharedArrayBuffer;
}

export interface FuzzOptions extends Partial<Omit<FuzzJob, 'slot'>> {
  /** An input that takes this much processor time hangs: the time by the clock is also that of others on the machine. */
  readonly hangMs?: number;
  readonly onFinding?: (finding: FuzzFinding) => void;
}

export interface FuzzResult {
  /** Inputs of all targets that were tried, also in a run that ended early. */
  readonly tried: number;
  /** Empty for a run that ended early. */
  readonly counts: readonly FuzzCount[];
  readonly findings: readonly FuzzFinding[];
}

const WATCH_MS = 500;
/** How often `hangMs` an input may wait without using the processor. */
const IDLE_TIMES = 20;

/** Processor time of this process; beside the thread that tries inputs nothing in it has work to do. */
function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Tries inputs of one target after another until the number of cases or the end is reached. A hang or crash ends the run early. */
export async function fuzz({
  module = new URL('./targets.ts', import.meta.url).href,
  targets = Object.keys(FUZZ_TARGETS),
  seed = 1,
  cases = Number.POSITIVE_INFINITY,
  endsAtMs = Number.POSITIVE_INFINITY,
  hangMs = 30_000,
  onFinding,
}: FuzzOptions): Promise<FuzzResult> {
  const memory = new SharedArrayBuffer(InputSlot.BYTES);
  const slot = new InputSlot(memory);
  const findings: FuzzFinding[] = [];
  let counts: readonly FuzzCount[] = [];
  const find = (finding: FuzzFinding) => {
    findings.push(finding);
    onFinding?.(finding);
  };
  const workerData = { module, targets, seed, cases, endsAtMs, slot: memory } satisfies FuzzJob;
  const thread = new Worker(new URL('./fuzz-thread.ts', import.meta.url), { workerData });
  thread.on('message', (event: FuzzEvent) => {
    if ('counts' in event) counts = event.counts;
    else find(event.finding);
  });
  thread.on('error', (error) => find({ ...slot.take(), failure: `ended the thread: ${(error as Error).stack}` }));
  let seen = { count: -1, atMs: Date.now(), usedMs: usedMs() };
  const watch = setInterval(() => {
    const now = { count: slot.count, atMs: Date.now(), usedMs: usedMs() };
    const isLate = now.usedMs - seen.usedMs > hangMs || now.atMs - seen.atMs > IDLE_TIMES * hangMs;
    if (now.count !== seen.count) seen = now;
    else if (isLate && seen.count > 0) {
      const [used, passed] = [now.usedMs - seen.usedMs, now.atMs - seen.atMs].map(Math.round);
      find({ ...slot.take(), failure: `hangs: not done after ${passed} ms, ${used} of them on the processor` });
      void thread.terminate();
    }
  }, WATCH_MS);
  await new Promise((resolve) => thread.once('exit', resolve));
  clearInterval(watch);
  // Node ends a thread that waits for what nothing will bring.
  if (counts.length === 0 && findings.length === 0)
    find({ ...slot.take(), failure: 'never ends, and nothing is under way' });
  return { tried: slot.count, counts, findings };
}
