/** Of a call of a plugin's tool: its input and output against the whole schemas, and what it threw with the place in its files. */
import type { ValidateFunction } from 'ajv';
import { ToolError } from '../src/errors.ts';
import type { JobResult } from '../src/hosts/job.ts';
import { parseJson } from '../src/parse-json.ts';
import type { PluginCode } from '../src/plugin-code.ts';

interface End {
  /** Bytes of a value as JSON. */
  readonly limit: number;
  cpuMs(): number;
}

/**
 * Calls the tool and gives its value. Patterns of a plugin may keep this process busy for ever; then it is killed like a
 * program that does. Throws INPUT_INVALID, CODE_ERROR.
 */
export async function endOfPlugin(
  plugin: PluginCode,
  input: unknown,
  { limit, cpuMs }: End,
  call: (json: string) => Promise<string>,
): Promise<JobResult> {
  const problem = await problemOf(plugin.input, input);
  if (problem !== undefined) throw new ToolError('INPUT_INVALID', `the input is not right: ${problem}`);
  const end = await call(JSON.stringify(input));
  const [kind, body] = [end[0], end.slice(1)];
  if (kind === 'e') throw thrownError(body, plugin);
  const outputBytes = Buffer.byteLength(body);
  const usage = { cpuMs: cpuMs(), outputBytes, enforcedBy: plugin.isolation } as const;
  if (kind === 'l' || outputBytes > limit) {
    const used = kind === 'l' ? Number(body) || limit : outputBytes;
    const error = new ToolError('OUTPUT_LIMIT', `the plugin gave more than ${limit} bytes as JSON`, {
      details: { limit, used, enforcedBy: plugin.isolation },
    });
    return { ok: false, error: error.toWire(), usage: { ...usage, outputBytes: 0, verdict: 'output' } };
  }
  const data = kind === 'v' ? parsed(body) : undefined;
  const wrong = await problemOf(plugin.output, data);
  if (wrong !== undefined)
    throw codeError({
      name: 'TypeError',
      message: `what ${plugin.export} gave is not what its manifest says: ${wrong}`,
    });
  return { ok: true, data, usage: { ...usage, verdict: 'ok' } };
}

interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

interface Thrown extends Partial<Place> {
  readonly name: string;
  readonly message: string;
  /** Of the tool whose failure it is. */
  readonly code?: string;
}

/** What a plugin threw while it was loaded, by the innermost place of its stack that is in one of its files. */
export function pluginError(thrown: unknown, plugin: PluginCode): ToolError {
  if (!(thrown instanceof Error)) return codeError({ name: 'Error', message: String(thrown) });
  const { name, message, stack } = thrown;
  return codeError({ name: `${name}`, message: `${message}`, ...placeIn(`${stack}`, plugin) });
}

/** For what went wrong in a plugin. */
export function codeError({ name, message, file, line, column, code }: Thrown): ToolError {
  const where = file === undefined ? '' : line === undefined ? ` (${file})` : ` (${file}:${line}:${column})`;
  const flat = message.replaceAll(/\s+/g, ' ').slice(0, 500);
  return new ToolError('CODE_ERROR', `the plugin threw ${name.slice(0, 64)}: ${flat}${where}`.toWellFormed(), {
    suggestion: code
      ? `What it called ended as ${code.slice(0, 64)}.`
      : 'It is for the author of the plugin to mend; file, line and column are in the details.',
    details: {
      name: name.slice(0, 64).toWellFormed(),
      message: message.slice(0, 2000).toWellFormed(),
      ...(file !== undefined && { file }),
      ...(line !== undefined && { line, column }),
      ...(code && { code: code.slice(0, 64) }),
    },
  });
}

function thrownError(body: string, plugin: PluginCode): ToolError {
  const [name = 'Error', message = '', stack = '', code = ''] = body.split('\n').map((it) => {
    const word = parsed(it);
    return typeof word === 'string' ? word : '';
  });
  return codeError({ name, message, code, ...placeIn(stack, plugin) });
}

function placeIn(stack: string, { modules }: PluginCode): Place | undefined {
  for (const [, file = '', line, column] of stack.matchAll(/(?:\(|\bat (?:async )?)([\w./-]+\.m?js):(\d+):(\d+)\)?/g))
    if (Object.hasOwn(modules, file)) return { file, line: Number(line), column: Number(column) };
  return undefined;
}

function parsed(json: string): unknown {
  try {
    return parseJson(json);
  } catch {
    throw codeError({ name: 'Error', message: 'it broke what gives back its value' });
  }
}

const validators = new Map<string, ValidateFunction>();

/** What is wrong with a value by a schema. A host serves one session, whose plugins are few. */
async function problemOf(schema: object, value: unknown): Promise<string | undefined> {
  const key = JSON.stringify(schema);
  const validate = validators.get(key) ?? (await compiled(schema));
  validators.set(key, validate);
  if (validate(value)) return undefined;
  const [error] = validate.errors ?? [];
  return `${error?.instancePath.slice(1).replaceAll('/', '.') || 'it'} ${error?.message}`.slice(0, 300);
}

async function compiled(schema: object): Promise<ValidateFunction> {
  const { Ajv } = await import('ajv');
  // Formats were checked by the gateway.
  return new Ajv({ strict: false, validateFormats: false, logger: false }).compile(schema);
}
