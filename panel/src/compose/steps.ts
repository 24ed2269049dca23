/** The steps of a batch that is being composed, and what they become: calls, a batch file. */
import { type ComposedCall, WHOLE } from '../../../src/pipeline/batch/program.ts';
import type { Parameter } from './schema.ts';

/** A field of JSON stands for the whole input of a tool without plain parameters. */
export const WHOLE_INPUT = '';

export interface Step {
  readonly id: string;
  readonly tool: string;
  /** The text of each field, by parameter. */
  readonly fields: ReadonlyMap<string, string>;
  /** Steps that come before it though it takes nothing from them. */
  readonly after: readonly string[];
}

/** Most calls of a file that is opened: each is a form. */
const STEPS_MAX = 100;

/** An id that no step has. */
export function freeId(tool: string, steps: readonly Step[]): string {
  const base = tool.split('_').at(-1) ?? tool;
  const taken = new Set(steps.map(({ id }) => id));
  for (let at = 1; ; at++) {
    const id = at === 1 ? base : `${base}${at}`;
    if (!taken.has(id)) return id;
  }
}

/** The call that a step stands for. Throws an Error that names the step and the field. */
export function toCall(step: Step, parameters: readonly Parameter[] | undefined): ComposedCall {
  const { id, tool, fields, after } = step;
  const rest = { id, tool, ...(after.length > 0 && { dependsOn: after }) };
  if (!parameters) return { ...rest, input: parse(fields.get(WHOLE_INPUT) || '{}', `the input of ${id}`) };
  const entries = parameters.flatMap(({ name, kind, isRequired }): [string, unknown][] => {
    const text = fields.get(name) ?? '';
    if (kind === 'text') return text !== '' || isRequired ? [[name, text]] : [];
    if (text.trim() === '') return [];
    return [[name, WHOLE.test(text.trim()) ? text.trim() : parse(text, `${name} of ${id}`)]];
  });
  return { ...rest, input: Object.fromEntries(entries) };
}

function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`In ${what} is neither JSON nor one reference: ${text.slice(0, 60)}`);
  }
}

export const toBatchFile = (calls: readonly ComposedCall[]): string => `${JSON.stringify({ calls }, null, 2)}\n`;

/** The calls with `${input.NAME}` replaced by the values. */
export function withInputs(calls: readonly ComposedCall[], values: Readonly<Record<string, unknown>>): ComposedCall[] {
  const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  const fill = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(fill);
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, fill(it)]));
    if (typeof value !== 'string') return value;
    const [, whole = ''] = /^\$\{input\.(\w+)\}$/.exec(value) ?? [];
    if (Object.hasOwn(values, whole)) return values[whole];
    return value.replace(/\$?\$\{input\.(\w+)\}/g, (it, name: string) =>
      it.startsWith('$$') || !Object.hasOwn(values, name) ? it : text(values[name]),
    );
  };
  return calls.map((it) => ({ ...it, input: fill(it.input) }));
}

/** The steps of a batch file. Throws an Error if it holds no batch. */
export function fromBatchFile(text: string, parametersOf: (tool: string) => readonly Parameter[] | undefined): Step[] {
  const parsed = parse(text, 'the file') as { calls?: unknown } | unknown[];
  const calls = Array.isArray(parsed) ? parsed : parsed?.calls;
  if (!Array.isArray(calls)) throw new Error('The file is no batch: it has no list of calls.');
  if (calls.length > STEPS_MAX)
    throw new Error(`The file has ${calls.length} calls; at most ${STEPS_MAX} can be composed here.`);
  return (calls as Partial<ComposedCall>[]).map(({ id, tool, input = {}, dependsOn = [] }, at) => {
    if (typeof id !== 'string' || typeof tool !== 'string') throw new Error(`Call ${at + 1} has no id or no tool.`);
    const known = parametersOf(tool);
    const members = Object.entries(input as object);
    const isPlain = known && members.every(([name]) => known.some((it) => it.name === name));
    const textOf = (name: string, value: unknown) =>
      typeof value === 'string' && (known?.find((it) => it.name === name)?.kind === 'text' || WHOLE.test(value))
        ? value
        : JSON.stringify(value);
    const fields = isPlain
      ? members.map(([name, value]): [string, string] => [name, textOf(name, value)])
      : [[WHOLE_INPUT, JSON.stringify(input, null, 2)] as [string, string]];
    return { id, tool, fields: new Map(fields), after: dependsOn };
  });
}
