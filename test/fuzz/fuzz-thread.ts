/**
 * The thread that tries inputs. What it is trying stands in shared memory, so that an input which hangs or ends the
 * thread is known.
 */
import { parentPort, workerData } from 'node:worker_threads';
import type { FuzzEvent, FuzzJob } from './fuzz.ts';
import { CASE_CPU_MICROSECONDS_MAX, InputSlot } from './input-slot.ts';
import { keptInputs } from './kept.ts';
import { createRandom, mutate, type RandomBelow } from './mutations.ts';
import { shapeOfMessage } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

/** Inputs kept for one target, and the outcomes that are told apart. */
const CORPUS_MAX = 600;
/** Time of one target before the next one has its turn: each gets the same time, whatever its cases take. */
const TURN_MS = 25;

const { module, targets, seed, cases, endsAtMs, slot: memory } = workerData as FuzzJob;
const { FUZZ_TARGETS } = (await import(module)) as typeof import('./targets.ts');
const slot = new InputSlot(memory);

const seedsOf = (name: string, { seeds }: FuzzTarget): Buffer[] => [
  ...seeds.map((it) => Buffer.from(it)),
  ...keptInputs(name).map((it) => it.input),
];

interface FuzzState {
  readonly name: string;
  readonly target: FuzzTarget;
  /** Of its own, so that a seed gives the same inputs whatever time the other targets take. */
  readonly random: RandomBelow;
  readonly corpus: Buffer[];
  /** The first input of each outcome. */
  readonly outcomes: Map<string, Buffer>;
  cases: number;
}

/** Tries one input and returns its outcome, or what is wrong with it. */
async function attempt({ name, target }: FuzzState, input: Buffer): Promise<{ outcome?: string; failure?: string }> {
  slot.put(name, input);
  const before = process.threadCpuUsage();
  try {
    const ran = target.run(input);
    const outcome = typeof ran === 'string' ? ran : await ran;
    const { user, system } = process.threadCpuUsage(before);
    if (user + system > CASE_CPU_MICROSECONDS_MAX) return { failure: `slow: ${user + system} µs of processor time` };
    return { outcome };
  } catch (error) {
    return { failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

/** One of the inputs to begin with, then changed copies and, every third time, one of the grammar, changed or not. */
function inputOf({ cases, target, corpus, random }: FuzzState): Buffer {
  if (cases < corpus.length) return corpus[cases] as Buffer;
  if (!target.generate || random(3) > 0) return mutate({ ...target, corpus, random });
  const made = Buffer.from(target.generate(random));
  return random(2) === 0 ? made : mutate({ ...target, corpus: [made], random });
}

async function tryNext(state: FuzzState): Promise<void> {
  const { name, corpus, outcomes } = state;
  const input = inputOf(state);
  state.cases += 1;
  const { outcome, failure } = await attempt(state, input);
  const shape = outcome ?? `failure ${shapeOfMessage(failure as string)}`;
  if (outcomes.has(shape)) return;
  if (outcomes.size < CORPUS_MAX) outcomes.set(shape, input);
  if (failure !== undefined) tell({ finding: { target: name, input, failure } });
  else if (corpus.length < CORPUS_MAX) corpus.push(input);
}

const tell = (event: FuzzEvent): void => parentPort?.postMessage(event);

const states = targets.map((name): FuzzState => {
  const target = FUZZ_TARGETS[name] as FuzzTarget;
  return { name, target, random: createRandom(seed), corpus: seedsOf(name, target), outcomes: new Map(), cases: 0 };
});
const isDone = (state: FuzzState): boolean => state.cases >= cases || Date.now() >= endsAtMs;
while (!states.every(isDone)) {
  for (const state of states) {
    const turnEndsMs = performance.now() + TURN_MS;
    while (!isDone(state) && performance.now() < turnEndsMs) await tryNext(state);
  }
}
tell({ counts: states.map(({ name: target, cases, outcomes }) => ({ target, cases, outcomes })) });
process.exit();
