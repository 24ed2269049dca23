/** Modes: named narrowings of tools and policy, for sessions, sub-agents and MCP clients. */
import * as z from 'zod';
import { RpcError } from '../base/errors.ts';
import { matchText } from '../base/text/glob.ts';

/** A mode takes away; what it does not name stays as it is. */
export interface Mode {
  /** Patterns of tools' names; all tools when absent. */
  readonly tools?: readonly string[] | undefined;
  /** Built-in name or file of a policy that narrows. */
  readonly policy?: string | undefined;
}

/** Patterns of tools' names, in which `*` matches anything. */
export const toolPatterns = z.array(z.string().min(1).max(128)).min(1).max(256);

const modeName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'takes up to 32 lower-case letters, digits and dashes');

/** The schema of `modes` in config.yaml. */
export const modesSchema = z
  .record(
    modeName,
    z.strictObject({
      tools: toolPatterns.optional().describe('The only tools of the mode, by names in which `*` matches anything.'),
      policy: z.string().min(1).max(4096).optional().describe('A policy that narrows: a built-in name or a file.'),
    }),
  )
  .refine((it) => Object.keys(it).length <= 32, 'must name at most 32 modes')
  .refine((it) => !Object.keys(it).some((name) => BUILT_IN_MODES.has(name)), 'may not name a built-in mode again');

/** The modes that every daemon has. */
const BUILT_IN_MODES: ReadonlyMap<string, Mode> = new Map([
  ['read', { policy: 'read-only' }],
  ['plan', { policy: 'plan' }],
  ['code', {}],
]);

/** The modes of the config, with policies by built-in name or absolute path. */
export const toModes = (
  given: z.output<typeof modesSchema>,
  toPolicy: (nameOrPath: string) => string,
): Readonly<Record<string, Mode>> =>
  Object.fromEntries(
    Object.entries(given).map(([name, { tools, policy }]) => [name, { tools, policy: policy && toPolicy(policy) }]),
  );

export class Modes {
  readonly #modes: ReadonlyMap<string, Mode>;

  constructor(own: Readonly<Record<string, Mode>>) {
    this.#modes = new Map([...BUILT_IN_MODES, ...Object.entries(own)]);
  }

  /** Throws RpcError INVALID_PARAMS if there is no such mode. */
  find(name: string): Mode {
    const mode = this.#modes.get(name);
    if (mode) return mode;
    const names = [...this.#modes.keys()].join(', ');
    throw new RpcError('INVALID_PARAMS', `there is no mode ${name.slice(0, 64)}; the daemon has: ${names}`);
  }
}

/** Whether a tool's name matches one of the patterns; any does if there are none. */
export const isAmong = (patterns: readonly string[] | undefined, name: string): boolean =>
  patterns === undefined || patterns.some((it) => matchText(it, name));
