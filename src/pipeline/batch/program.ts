/** A batch as a program that does the same. */

export interface ComposedCall {
  readonly id: string;
  readonly tool: string;
  readonly input: unknown;
  readonly dependsOn?: readonly string[] | undefined;
}

/** References to results, as a batch reads them: `${id.path}`; with a second dollar sign before it, it is plain text. */
const REFERENCE = /\$?\$\{([^\s.${}[\]]+)\.([^{}]+)\}/g;
/** A text that is one reference. */
export const WHOLE = /^\$\{([^\s.${}[\]]+)\.([^{}]+)\}$/;

/** The name by which references mean the program's own input. */
export const INPUT = 'input';

/** Gives a part of the data of a step; what a batch finds beside the data, a program does not have. */
const HELPERS = `const step = {};
const part = async (id, keys) =>
  keys.reduce((value, key) => value?.[key], id === '${INPUT}' ? input : await step[id]);
const text = async (id, keys) => {
  const value = await part(id, keys);
  return typeof value === 'string' ? value : JSON.stringify(value);
};`;

/** A program for code_run that does the same; `order` has each step after those that it waits for. */
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
  if (id !== undefined && path !== undefined) return `await part(${JSON.stringify(id)}, ${keysOf(id, path)})`;
  const parts: string[] = [];
  let end = 0;
  for (const match of text.matchAll(REFERENCE)) {
    const [whole, inner, at] = match as unknown as [string, string, string];
    if (match.index > end) parts.push(JSON.stringify(text.slice(end, match.index)));
    parts.push(
      whole.startsWith('$$')
        ? JSON.stringify(whole.slice(1))
        : `(await text(${JSON.stringify(inner)}, ${keysOf(inner, at)}))`,
    );
    end = match.index + whole.length;
  }
  if (end < text.length || parts.length === 0) parts.push(JSON.stringify(text.slice(end)));
  return parts.length === 1 && end > 0 ? `\`\${${parts[0]}}\`` : parts.join(' + ');
}

/** `data.files[0].path` as `["files", 0, "path"]`. */
function keysOf(id: string, path: string): string {
  const keys = [...path.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([key, index]) =>
    index === undefined ? key : Number(index),
  );
  return JSON.stringify(id !== INPUT && keys[0] === 'data' ? keys.slice(1) : keys);
}
