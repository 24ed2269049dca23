/** The steps of a batch that is being composed, and what they become: calls, a batch file, a program. */
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

export interface ComposedCall {
  readonly id: string;
  readonly tool: string;
  readonly input: unknown;
  readonly dependsOn?: readonly string[];
}

/** Most calls of a file that is opened: each is a form. */
const STEPS_MAX = 100;

/** References to results, as the daemon reads them: `${id.path}`; with a second dollar sign before it, it is plain text. */
const REFERENCE = /\$?\$\{([^\s.${}[\]]+)\.([^{}]+)\}/g;
const WHOLE = /^\$\{([^\s.${}[\]]+)\.([^{}]+)\}$/;

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

/** Gives a part of the data of a step; what a batch finds beside the data, a program does not have. */
const HELPERS = `const step = {};
const part = async (id, keys) => keys.reduce((value, key) => value?.[key], await step[id]);
const text = async (id, keys) => {
  const value = await part(id, keys);
  return typeof value === 'string' ? value : JSON.stringify(value);
};`;

/** A program for code_run that does the same; \`order\` has each step after those that it waits for. */
export function toProgram(calls: readonly ComposedCall[], order: readonly string[]): string {
  const byId = new Map(calls.map((it) => [it.id, it]));
  const sorted = order.flatMap((id) => byId.get(id) ?? []);
  const steps = sorted.map(({ id, tool, input, dependsOn = [] }) => {
    const waits = dependsOn.map((it) => `  await step[${JSON.stringify(it)}];\n`).join('');
    return `step[${JSON.stringify(id)}] = (async () => {\n${waits}  return ${toolOf(tool)}(${codeOf(input)});\n})();`;
  });
  const end =
    'return Object.fromEntries(await Promise.all(Object.entries(step).map(async ([id, it]) => [id, await it])));';
  return `${[HELPERS, ...steps, end].join('\n')}\n`;
}

const toolOf = (name: string): string =>
  /^[a-z]\w*$/i.test(name) ? `tools.${name}` : `tools[${JSON.stringify(name)}]`;

/** A value as an expression of a program, with each reference as the part that it stands for. */
function codeOf(value: unknown): string {
  if (typeof value === 'string') return codeOfText(value);
  if (Array.isArray(value)) return `[${value.map(codeOf).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([key, it]) => `[${JSON.stringify(key)}]: ${codeOf(it)}`);
  return `{ ${members.join(', ')} }`;
}

function codeOfText(text: string): string {
  const [, id, path] = WHOLE.exec(text) ?? [];
  if (id !== undefined && path !== undefined) return `await part(${JSON.stringify(id)}, ${keysOf(path)})`;
  const parts: string[] = [];
  let end = 0;
  for (const match of text.matchAll(REFERENCE)) {
    const [whole, inner, at] = match as unknown as [string, string, string];
    if (match.index > end) parts.push(JSON.stringify(text.slice(end, match.index)));
    parts.push(
      whole.startsWith('$$') ? JSON.stringify(whole.slice(1)) : `(await text(${JSON.stringify(inner)}, ${keysOf(at)}))`,
    );
    end = match.index + whole.length;
  }
  if (end < text.length || parts.length === 0) parts.push(JSON.stringify(text.slice(end)));
  return parts.length === 1 && end > 0 ? `\`\${${parts[0]}}\`` : parts.join(' + ');
}

/** `data.files[0].path` as `["files", 0, "path"]`. */
function keysOf(path: string): string {
  const keys = [...path.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([key, index]) =>
    index === undefined ? key : Number(index),
  );
  return JSON.stringify(keys[0] === 'data' ? keys.slice(1) : keys);
}
