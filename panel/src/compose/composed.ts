/** The batch that is being composed: kept while the page is open, planned by the daemon after each change, and run. */
import { computed, signal } from '@preact/signals';
import type { ComposedCall } from '../../../src/pipeline/batch/program.ts';
import { request, requestIn } from '../connection.ts';
import type { Answer, Method } from '../messages.ts';
import { outputsOf, parametersOf, type Schema } from './schema.ts';
import { freeId, type Step, toCall, withInputs } from './steps.ts';

export interface KnownTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly category?: string;
  readonly tier?: string;
  readonly inputSchema: Schema;
  readonly outputSchema?: Schema;
}

export type Plan = Extract<Answer<'tools.batch'>, { calls: unknown }>;
type BatchResult = Extract<Answer<'tools.batch'>, { results: unknown }>;

/** Milliseconds without a change before a plan is asked for. */
const PLAN_MS = 300;

/** An input of what is composed; its example stands for it when the batch is planned and run here. */
export interface TypedInput {
  readonly name: string;
  readonly type: string;
  readonly description: string;
  /** Written as JSON, a string without quotes. */
  readonly example: string;
}

export const tools = signal<ReadonlyMap<string, KnownTool>>(new Map());
export const steps = signal<readonly Step[]>([]);
export const inputs = signal<readonly TypedInput[]>([]);
/** The folder in which the batch runs; the daemon's first when empty. */
export const workspace = signal('');
export const plan = signal<Plan | undefined>(undefined);
/** Why there is no plan. */
export const problem = signal<string | undefined>(undefined);
/** The run that was started last. */
export const run = signal<{ readonly batchId: string; readonly told: string } | undefined>(undefined);

export const parametersFor = (tool: string) => {
  const known = tools.value.get(tool);
  return known && parametersOf(known.inputSchema);
};

/** The outputs of the steps before this one, as references. */
export const referencesFor = (id: string): string[] => {
  const at = steps.value.findIndex((it) => it.id === id);
  const outputs = steps.value
    .slice(0, at)
    .flatMap((it) => outputsOf(tools.value.get(it.tool)?.outputSchema).map((path) => `\${${it.id}.${path}}`));
  return [...inputs.value.map(({ name }) => `\${input.${name}}`), ...outputs];
};

/** The calls of the steps; the reason if a field can't be read. */
export const calls = computed<readonly ComposedCall[] | string>(() => {
  try {
    return steps.value.map((it) => toCall(it, parametersFor(it.tool)));
  } catch (error) {
    return (error as Error).message;
  }
});

/** The values of the inputs' examples. Throws an Error for one that is no JSON. */
const examples = (): Record<string, unknown> =>
  Object.fromEntries(
    inputs.value.map(({ name, type, example }) => [name, type === 'string' ? example : JSON.parse(example || 'null')]),
  );

/** The calls with the examples in the place of inputs. */
const triedCalls = (): ComposedCall[] => withInputs(calls.value as readonly ComposedCall[], examples());

/** The calls and inputs as `plugins.save` takes them. Throws an Error for a field that can't be read. */
export function toComposition(description: string) {
  if (typeof calls.value === 'string') throw new Error(calls.value);
  const typed = inputs.value.map(({ name, type, description }) => [name, { type, description: description || name }]);
  return { description, inputs: Object.fromEntries(typed), calls: calls.value, examples: [{ input: examples() }] };
}

export async function loadTools(): Promise<void> {
  const { tools: all } = await request('tools.list', { tools: 'all' });
  tools.value = new Map((all as unknown as KnownTool[]).map((it) => [it.name, it]));
}

export function addStep(tool: string): void {
  steps.value = [...steps.value, { id: freeId(tool, steps.value), tool, fields: new Map(), after: [] }];
}

export function changeStep(id: string, change: Partial<Step>): void {
  steps.value = steps.value.map((it) => (it.id === id ? { ...it, ...change } : it));
}

export function removeStep(id: string): void {
  steps.value = steps.value
    .filter((it) => it.id !== id)
    .map((it) => ({ ...it, after: it.after.filter((other) => other !== id) }));
}

const ask = <M extends Method>(method: M, params: object): Promise<Answer<M>> =>
  workspace.value ? requestIn(workspace.value, method, params) : request(method, params);

let timer: number | undefined;
let planned = 0;

/** Asks for a plan of the steps as they are now, a moment later. */
export function planSoon(): void {
  clearTimeout(timer);
  timer = setTimeout(() => void planNow(), PLAN_MS);
}

async function planNow(): Promise<void> {
  const number = ++planned;
  const all = calls.value;
  const set = (found: Plan | undefined, reason?: string) => {
    // The steps may have changed meanwhile.
    if (number === planned) [plan.value, problem.value] = [found, reason];
  };
  if (typeof all === 'string') return set(undefined, all);
  if (all.length === 0) return set(undefined);
  try {
    set((await ask('tools.batch', { calls: triedCalls(), options: { plan: true } })) as Plan);
  } catch (error) {
    set(undefined, (error as Error).message);
  }
}

/** Runs the batch; it goes on while other views are shown, and ends with the page. */
export async function runBatch(): Promise<void> {
  const batchId = crypto.randomUUID();
  const tell = (told: string) => {
    run.value = { batchId, told };
  };
  tell('running');
  try {
    const { metadata, error } = (await ask('tools.batch', {
      calls: triedCalls(),
      options: { batchId },
    })) as BatchResult;
    const { successCount, totalCalls, durationMs } = metadata;
    tell(error ? error.message : `${successCount} of ${totalCalls} calls succeeded, in ${durationMs} ms`);
  } catch (error) {
    tell((error as Error).message);
  }
}
