/** Checks the input and output of a plugin's tool against its schemas, and turns its errors into ours, with the position in its files. */
import type { ValidateFunction } from 'ajv';
import { ToolError } from '../../src/base/errors.ts';
import type { PluginCode } from '../../src/base/plugin-code.ts';
import { parseJson } from '../../src/base/text/json.ts';
import type { JobResult } from '../../src/hosts/job.ts';

interface OutcomeBounds {
  /** The most bytes of a value as JSON. */
  readonly limit: number;
  cpuMs(): number;
}

/**
 * Calls the tool and gives its value. A plugin's patterns may block this process for ever; it is then killed, as for
 * a program. Throws INPUT_INVALID, CODE_ERROR.
 */
export async function endOfPlugin(
  plugin: PluginCode,
  input: unknown,
  { limit, cpuMs }: OutcomeBounds,
  call: (json: string) => Promise<string>,
): Promise<JobResult> {
  const problem = await problemOf(plugin.input, input);
  if (problem !== undefined) throw new ToolError('INPUT_INVALID', `the input is not valid: ${problem}`);
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

interface SourcePosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

interface ThrownByPlugin extends Partial<SourcePosition> {
  readonly name: string;
  readonly message: string;
  /** Error code of the tool that failed. */
  readonly code?: string;
}

/** The error of a plugin that threw while it was loaded, with the innermost position in its files. */
export function pluginError(thrown: unknown, plugin: PluginCode): ToolError {
  if (!(thrown instanceof Error)) return codeError({ name: 'Error', message: String(thrown) });
  const { name, message, stack } = thrown;
  return codeError({ name: `${name}`, message: `${message}`, ...placeIn(`${stack}`, plugin) });
}

/** Makes the error for a failure in a plugin. */
export function codeError({ name, message, file, line, column, code }: ThrownByPlugin): ToolError {
  const where = file === undefined ? '' : line === undefined ? ` (${file})` : ` (${file}:${line}:${column})`;
  const flat = message.replaceAll(/\s+/g, ' ').slice(0, 500);
  return new ToolError('CODE_ERROR', `the plugin threw ${name.slice(0, 64)}: ${flat}${where}`.toWellFormed(), {
    suggestion: code
      ? `A call that the plugin made ended with ${code.slice(0, 64)}.`
      : 'The author of the plugin must correct this; the details give file, line and column.',
    details: {
      name: name.slice(0, 64).toWellFormed(),
      message: message.slice(0, 2000).toWellFormed(),
      file,
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

function placeIn(stack: string, { modules }: PluginCode): SourcePosition | undefined {
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

/** The first problem of a value by a schema. Validators are cached: a host serves one session, whose plugins are few. */
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
  // The gateway has checked formats.
  return new Ajv({ strict: false, validateFormats: false, logger: false }).compile(schema);
}
