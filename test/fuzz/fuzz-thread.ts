/**
 * The thread that tries inputs. What it is trying stands in shared memory, so that an input which hangs or ends the
 * thread is known.
 */
import { parentPort, workerData } from 'node:worker_threads';
import type { FuzzEvent, FuzzJob } from './fuzz.ts';
import { InputSlot } from './input-slot.ts';
import { keptInputs } from './kept.ts';
import { createRandom, mutate } from './mutations.ts';
import { shapeOfMessage } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

/** Inputs kept for one target, and the outcomes that are told apart. */
const CORPUS_MAX = 600;
/** Processor time in which each input is to be done with. */
const CASE_CPU_MICROSECONDS_MAX = 1_500_000;
/** Cases of one target before the next one has its turn. */
const TURN_CASES = 50;

const { module, targets, seed, cases, endsAtMs, slot: memory } = workerData as FuzzJob;
const { FUZZ_TARGETS } = (await import(module)) as typeof import('./targets.ts');
const slot = new InputSlot(memory);
const random = createRandom(seed);

const seedsOf = (name: string, { seeds }: FuzzTarget): Buffer[] => [
  ...seeds.map((it) => Buffer.from(it)),
  ...keptInputs(name).map((it) => it.input),
];

interface FuzzState {
  readonly name: string;
  readonly target: FuzzTarget;
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
function inputOf({ cases, target, corpus }: FuzzState): Buffer {
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
  return { name, target, corpus: seedsOf(name, target), outcomes: new Map(), cases: 0 };
});
let tried = 0;
while (tried < cases && Date.now() < endsAtMs) {
  for (const state of states) for (let left = TURN_CASES; left > 0; left--, tried++) await tryNext(state);
}
tell({ counts: states.map(({ name: target, cases, outcomes }) => ({ target, cases, outcomes })) });
process.exit();
