/** Handles all requests of a program to its host: a log line, a timer, a call. All of them are untrusted. */
import { ToolError, type WireError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers, Timer } from '../../src/base/powers.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { type ChildAnswer, isLogLevel, type LogLine } from '../../src/hosts/job.ts';

export interface MessageHandlers {
  /** Names of the tools that the program may call. */
  readonly tools: readonly string[];
  /** Passes a call on. Throws if the input does not fit into a message. */
  ask(call: number, tool: string, input: unknown): void;
  /** Passes a line on immediately, so that it arrives even if this process is then killed. */
  log(line: LogLine): void;
  /** Called if the program must be ended. */
  abused(error: ToolError): void;
}

const UNHANDLED_CHARS = 1000;
/** The most total size of the inputs of waiting calls, as a multiple of the largest input. */
const WAITING_INPUTS = 8;

interface PendingToolCall {
  readonly call: number;
  /** The guest's id of the request. */
  readonly id: string;
  readonly tool: string;
  readonly json: string;
}

export class IsolateMessages {
  readonly #limits: Limits;
  readonly #handlers: MessageHandlers;
  readonly #powers: Pick<Powers, 'after'>;
  #end = Promise.withResolvers<string>();
  readonly #timers = new Map<string, Timer>();
  readonly #pendingCalls: PendingToolCall[] = [];
  /** Maps the number of a call in progress to the guest's id. */
  readonly #active = new Map<number, string>();
  #deliver: (id: string, answer: string) => void = () => {};
  #logs = 0;
  #logChars = 0;
  #calls = 0;
  #refused = 0;
  #inputChars = 0;
  #isClosed = false;

  constructor(limits: Limits, asking: MessageHandlers, powers: Pick<Powers, 'after'>) {
    this.#limits = limits;
    this.#powers = powers;
    this.#handlers = asking;
  }

  /** Resolves with the guest's next end text. Rejects if its isolate failed. */
  nextEnd(): Promise<string> {
    this.#end = Promise.withResolvers<string>();
    this.#end.promise.catch(() => {}); // The isolate may fail after the race in which this is awaited.
    return this.#end.promise;
  }

  /** Sets the function that delivers answers to the guest. */
  connect(deliver: (id: string, answer: string) => void): void {
    this.#deliver = deliver;
  }

  readonly fail = (error: unknown): void => this.#end.reject(error);

  /** Logs a rejected promise of the guest that nothing awaited. The program goes on: it may await it later. */
  unhandled(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    if (!this.#isClosed)
      this.#log('error', `rejected while nothing waited for it: ${message.slice(0, UNHANDLED_CHARS)}`);
  }

  /** The only function of ours in the isolate. */
  readonly receive = (operation: unknown, a: unknown, b: unknown, c: unknown): void => {
    if (![operation, a].every((it) => typeof it === 'string')) return;
    if (![b, c].every((it) => it === undefined || typeof it === 'string')) return;
    const [first, second, third] = [a as string, (b ?? '') as string, (c ?? '') as string];
    if (operation === 'log') this.#log(first, second);
    else if (operation === 'sleep') this.#sleep(first, second, Number(third));
    else if (operation === 'wake') this.#wake(first);
    else if (operation === 'call') this.#call(first, second, third);
    else if (operation === 'done') this.#end.resolve(first);
  };

  settleCall({ call, data, error }: ChildAnswer): void {
    const id = this.#active.get(call);
    if (id === undefined) return;
    this.#active.delete(call);
    this.#deliver(id, error ? toError(error) : `d${JSON.stringify(data ?? null)}`);
    this.#pump();
  }

  close(): void {
    this.#isClosed = true;
    this.#deliver = () => {};
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    this.#pendingCalls.length = 0;
    this.#active.clear();
  }

  #log(level: string, text: string): void {
    const { codeLogsMax, codeLogChars } = this.#limits;
    if (this.#logs >= codeLogsMax || this.#logChars >= codeLogChars || !isLogLevel(level)) return;
    const cut = text.slice(0, codeLogChars - this.#logChars).toWellFormed();
    this.#logs += 1;
    this.#logChars += cut.length;
    this.#handlers.log({ level, text: cut });
  }

  #sleep(id: string, timer: string, delayMs: number): void {
    if (this.#timers.size >= this.#limits.codeTimersMax || this.#timers.has(timer)) return;
    const wake = () => {
      this.#timers.delete(timer);
      this.#deliver(id, '');
    };
    this.#timers.set(timer, this.#powers.after(Math.min(Math.max(delayMs || 0, 0), TIMER_MS_MAX), wake));
  }

  #wake(timer: string): void {
    this.#timers.get(timer)?.cancel();
    this.#timers.delete(timer);
  }

  #call(id: string, tool: string, json: string): void {
    const { codeCallsMax, codeCallBytes } = this.#limits;
    const refuse = (code: 'TOOL_NOT_FOUND' | 'INPUT_INVALID' | 'RATE_LIMITED' | 'QUEUE_FULL', message: string) =>
      this.#deliver(id, toError(new ToolError(code, message).toWire()));
    if (!this.#handlers.tools.includes(tool))
      return refuse('TOOL_NOT_FOUND', `this program can't call a tool ${tool.slice(0, 64)}`);
    if (json.length > codeCallBytes)
      return refuse('INPUT_INVALID', `the input has ${json.length} characters; at most ${codeCallBytes} are allowed`);
    if (this.#calls >= codeCallsMax) {
      // A program that keeps calling would keep this process busy for nothing.
      this.#refused += 1;
      if (this.#refused > codeCallsMax) this.#handlers.abused(tooManyCalls(codeCallsMax));
      return refuse('RATE_LIMITED', `a program may make ${codeCallsMax} calls`);
    }
    if (this.#inputChars + json.length > WAITING_INPUTS * codeCallBytes)
      return refuse('QUEUE_FULL', 'the inputs of the calls that wait are too large together; await some first');
    this.#calls += 1;
    this.#inputChars += json.length;
    this.#pendingCalls.push({ call: this.#calls, id, tool, json });
    this.#pump();
  }

  #pump(): void {
    while (this.#active.size < this.#limits.codeConcurrencyMax) {
      const next = this.#pendingCalls.shift();
      if (!next) return;
      const { call, id, tool, json } = next;
      this.#inputChars -= json.length;
      this.#active.set(call, id);
      try {
        this.#handlers.ask(call, tool, parseJson(json));
      } catch (thrown) {
        const error = new ToolError('INPUT_INVALID', `the input can't be sent: ${(thrown as Error).message}`);
        this.settleCall({ id: 0, call, error: error.toWire() });
      }
    }
  }
}

const TIMER_MS_MAX = 2 ** 31 - 1;

const toError = ({ code, message, suggestion, details }: WireError): string =>
  `e${JSON.stringify({ code, message, suggestion, details })}`;

const tooManyCalls = (max: number) =>
  new ToolError('CODE_ERROR', `the program made more than ${max} calls, which is the maximum`);
