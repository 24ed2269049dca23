/**
 * The wrapper around a program in its isolate. It has no authority that the program must not have: the host checks
 * all its messages, so a program that breaks the wrapper breaks only itself.
 */

import type { UrlParts } from './url-globals.ts';
import { defineWebGlobals, webGlobalSources } from './web-globals.ts';

/** Sends an operation and strings to the host; returns nothing. */
type Send = (operation: string, a?: string, b?: string, c?: string) => void;

/** Messages from the host: a source to run or a function to call, with input and `Grant` as JSON, or the answer to a numbered request. */
export type Deliver = (operation: 'run' | 'call' | 'answer', a: string, b?: string, c?: string, tool?: Tool) => void;

/** A function of a plugin, in the realm of this wrapper. */
type Tool = (input: unknown, context: object) => unknown;

/** Bounds for every program of a host. */
export interface GuestBounds {
  readonly logs: number;
  readonly logChars: number;
  readonly timers: number;
}

/** The rights of one program. */
export interface ProgramRights {
  /** Names of the tools that the program may call. */
  readonly tools: readonly string[];
  readonly resultChars: number;
}

/** Asks the host for something; resolves with its answer. */
type SendToolCall = (operation: string, a: string, b?: string) => Promise<string>;

/** The script that evaluates to `guest`; its functions refer only to each other. */
export const guestScript = (): string =>
  `'use strict';(() => {${[webGlobalSources(), wordsOf, plainOf, consoleOf, timersOf, toolsOf, guest].join('\n')}
return guest;})()`;

/** The parts of an error, one line of JSON each. Getters of the thrown value run here, within the program's time. */
function wordsOf(thrown: unknown, stringify: typeof JSON.stringify): string {
  const textOf = (value: unknown): string => (typeof value === 'string' ? value : String(value)).slice(0, 4096);
  let [name, message, stack, code] = ['Error', '', '', ''];
  try {
    if ((typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function') {
      const it = thrown as { name?: unknown; message?: unknown; stack?: unknown; code?: unknown };
      if (it.name !== undefined) name = textOf(it.name);
      message = textOf(it.message ?? '');
      stack = textOf(it.stack ?? '');
      if (typeof it.code === 'string') code = textOf(it.code);
      if (it.message === undefined) message = textOf(stringify(thrown) ?? '');
    } else message = textOf(thrown);
  } catch {
    // A thrown value that throws again only hides itself.
  }
  return `${stringify(name)}\n${stringify(message)}\n${stringify(stack)}\n${stringify(code)}`;
}

/** A value that JSON would lose without a word, in a form that it keeps; for JSON.stringify. */
function plainOf(this: Record<string, unknown>, key: string, value: unknown): unknown {
  // JSON.stringify asked the date for its text before, which is null for an invalid one.
  if (value === null && this[key] instanceof Date) return 'Invalid Date';
  if (value instanceof Map || value instanceof Set) return [...value];
  if (value instanceof RegExp || value instanceof URLSearchParams) return value.toString();
  return typeof value === 'number' && !Number.isFinite(value) ? `${value}` : value;
}

function consoleOf(send: Send, { logs, logChars }: GuestBounds, stringify: typeof JSON.stringify) {
  let logged = 0;
  let loggedChars = 0;
  const show = (value: unknown): string => {
    if (typeof value === 'string') return value;
    try {
      if (value instanceof Error) return `${value.name}: ${value.message}`;
      return stringify(value) ?? String(value);
    } catch {
      return '[what can not be shown]'; // A cycle, a bigint, a getter that throws.
    }
  };
  const log =
    (level: string) =>
    (...values: unknown[]): void => {
      if (logged >= logs || loggedChars >= logChars) return;
      let text = '';
      for (let at = 0; at < values.length && text.length < logChars; at++)
        text += (at > 0 ? ' ' : '') + show(values[at]);
      const cut = text.slice(0, logChars - loggedChars);
      logged += 1;
      loggedChars += cut.length;
      send('log', level, cut);
    };
  return { log: log('log'), info: log('info'), warn: log('warn'), error: log('error') };
}

function timersOf(
  ask: SendToolCall,
  send: Send,
  { max, onError }: { max: number; onError: (thrown: unknown) => void },
) {
  let last = 0;
  let waiting = 0;
  const live: Record<number, boolean> = { __proto__: null } as never;
  const setTimeout = (work: unknown, delayMs?: unknown, ...values: unknown[]): number => {
    if (typeof work !== 'function') throw new TypeError('setTimeout takes a function');
    if (waiting >= max) throw new RangeError(`at most ${max} timers may be pending`);
    const id = ++last;
    live[id] = true;
    waiting += 1;
    void ask('sleep', `${id}`, `${Number(delayMs) || 0}`).then(() => {
      if (!live[id]) return;
      delete live[id];
      waiting -= 1;
      try {
        (work as (...them: unknown[]) => unknown)(...values);
      } catch (thrown) {
        onError(thrown);
      }
    });
    return id;
  };
  const clearTimeout = (id: unknown): void => {
    if (typeof id !== 'number' || !live[id]) return;
    delete live[id];
    waiting -= 1;
    send('wake', `${id}`);
  };
  return { setTimeout, clearTimeout };
}

function toolsOf(
  names: readonly string[],
  ask: SendToolCall,
  { parse, stringify }: typeof JSON,
): Record<string, unknown> {
  const call =
    (name: string) =>
    async (given: unknown = {}) => {
      const answer = await ask('call', name, stringify(given));
      const body: unknown = parse(answer.slice(1));
      if (answer[0] === 'd') return body;
      const { message, ...rest } = body as { message: string };
      throw Object.assign(new Error(message), { name: 'ToolError', ...rest });
    };
  const tools: Record<string, unknown> = { __proto__: null } as never;
  for (const name of names) tools[name] = call(name);
  return Object.freeze(tools);
}

/**
 * Builds the guest from two functions that take and give texts only, with no object of the host. A program's end is sent as `done` with
 * a text: `v` and the value as JSON, `u` for undefined, `l` and a size for a value that is too large, `e` and the
 * parts of an error, or `s` and those of a syntax error that kept it from running.
 */
function guest(send: Send, urlParts: UrlParts, given: string): Deliver {
  // Saved before the program can change them.
  const { parse, stringify: stringifyJson } = JSON;
  const stringify = ((value: unknown) => stringifyJson(value, plainOf)) as typeof JSON.stringify;
  const json = { parse, stringify } as typeof JSON;
  const AsyncFunction = (async () => {}).constructor as new (...words: string[]) => (...values: unknown[]) => unknown;
  const bounds = parse(given) as GuestBounds;
  for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'FinalizationRegistry', 'WeakRef'])
    delete (globalThis as Record<string, unknown>)[name];

  let last = 0;
  const asked: Record<string, (answer: string) => void> = { __proto__: null } as never;
  const ask: SendToolCall = (operation, a, b) =>
    new Promise((resolve) => {
      const id = `${++last}`;
      asked[id] = resolve;
      send(operation, id, a, b);
    });
  const console = consoleOf(send, bounds, stringify);
  const { setTimeout, clearTimeout } = timersOf(ask, send, { max: bounds.timers, onError: console.error });
  defineWebGlobals(setTimeout, urlParts);

  type Program = (tools: object, value: unknown) => unknown;
  const parsedOf = (source: string): Program => {
    const program = new AsyncFunction('tools', 'input', 'console', 'setTimeout', 'clearTimeout', source);
    return (tools, value) => program(tools, value, console, setTimeout, clearTimeout);
  };
  const calling =
    (tool: Tool): Program =>
    (tools, value) =>
      tool(value, { tools, console, setTimeout, clearTimeout });
  const endOf = async (program: Program, input: string | undefined, grant: ProgramRights): Promise<string> => {
    const tools = toolsOf(grant.tools, ask, json);
    const value = input === undefined ? undefined : (parse(input) as unknown);
    try {
      const text: unknown = stringify(await program(tools, value));
      if (typeof text !== 'string') return 'u';
      return text.length > grant.resultChars ? `l${text.length}` : `v${text}`;
    } catch (thrown) {
      return `e${wordsOf(thrown, stringify)}`;
    }
  };
  const run = async (source: string, input: string | undefined, grant: string): Promise<void> => {
    let program: Program;
    try {
      program = parsedOf(source);
    } catch (thrown) {
      return send('done', `s${wordsOf(thrown, stringify)}`);
    }
    send('done', await endOf(program, input, parse(grant) as ProgramRights));
  };
  const call = async (tool: Tool, input: string | undefined, grant: string): Promise<void> =>
    send('done', await endOf(calling(tool), input, parse(grant) as ProgramRights));
  return (operation, a, b, c, tool) => {
    if (operation === 'run') return void run(a, b, c ?? '');
    if (operation === 'call') return void call(tool as Tool, b, c ?? '');
    const answered = asked[a];
    delete asked[a];
    answered?.(b ?? '');
  };
}
