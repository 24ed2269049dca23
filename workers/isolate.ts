/**
 * Entry of an isolate host: one program at a time, each in an isolate of its own, frames over fd 3 until they end.
 * Nothing here is trusted to end a program: the gateway looks at the clock and at this process, and kills it.
 */
import { Socket } from 'node:net';
import { setPriority } from 'node:os';
import ivm from 'isolated-vm';
import { ToolError } from '../src/errors.ts';
import type { ChildAnswer, FromHost, HostSetup, IsolateBounds, Job, JobResult, ToHost } from '../src/hosts/job.ts';
import type { Limits } from '../src/limits.ts';
import { decode } from '../src/protocol/codec.ts';
import { FrameReader, toFrame } from '../src/protocol/frame.ts';
import { guestScript } from './isolate-guest.ts';
import { IsolateMessages } from './isolate-messages.ts';
import { outcomeOf, withoutTypes } from './isolate-outcome.ts';
import { establishPerimeter } from './perimeter.ts';

const GATEWAY_FD = 3;
const NICE = 5;
establishPerimeter(GATEWAY_FD);
// Its threads inherit it: programs get what others leave.
setPriority(NICE);

const gateway = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });
const CPU_LOOK_MS = 20;
const MIB = 1024 * 1024;
/** Of programs that do not say. */
const DEFAULT_MEMORY_MB = 64;

interface Program {
  readonly code: string;
  readonly input?: unknown;
}

interface Running {
  readonly id: number;
  readonly messages: IsolateMessages;
  abort(): void;
}

let limits: Limits | undefined;
let running: Running | undefined;

/** Levels and values that the gateway's own messages add around a result. */
const ENVELOPE = { depth: 8, elements: 1000 };

function send(message: FromHost): void {
  const { frameBytesMax, messageDepthMax, messageElementsMax } = limits as Limits;
  const bounds = {
    messageDepthMax: messageDepthMax - ENVELOPE.depth,
    messageElementsMax: messageElementsMax - ENVELOPE.elements,
  };
  gateway.write(toFrame(message, frameBytesMax, bounds));
}

/** Sends a result; one that no message can hold ends its call, not this process. */
function answer(id: number, result: JobResult): void {
  try {
    send({ done: { id, result } });
  } catch (thrown) {
    const error = new ToolError('OUTPUT_LIMIT', `the value does not fit a message: ${(thrown as Error).message}`, {
      suggestion: 'Return a part of it.',
    });
    send({ done: { id, result: { ok: false, error: error.toWire(), usage: { ...result.usage, verdict: 'output' } } } });
  }
}

/** An isolate in which nothing ran but our own wrapper. */
interface Fresh {
  readonly memoryMb: number;
  readonly isolate: ivm.Isolate;
  readonly setUp: Promise<ivm.Reference<(...given: unknown[]) => unknown>>;
}

/** For the next program, made while nobody waits; most want as much memory as the one before. */
let fresh: Fresh | undefined;

function prepare(memoryMb: number): Fresh {
  const isolate = new ivm.Isolate({ memoryLimit: memoryMb, onCatastrophicError: () => process.abort() });
  const made = async () => {
    const context = await isolate.createContext();
    const wrapper = await isolate.compileScript(guestScript());
    return wrapper.run(context, { reference: true });
  };
  const setUp = made();
  setUp.catch(() => {}); // Told to the program that gets it.
  return { memoryMb, isolate, setUp };
}

/** Each is given away once. */
function takeFresh(memoryMb: number): Fresh {
  const prepared = fresh;
  fresh = undefined;
  if (prepared?.memoryMb === memoryMb) return prepared;
  prepared?.isolate.dispose();
  return prepare(memoryMb);
}

async function run(job: Job): Promise<void> {
  const bounds = job.isolate as IsolateBounds;
  const { isolate, setUp } = takeFresh(bounds.memoryMb);
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => {}); // Told by the race below.
  const messages = new IsolateMessages(limits as Limits, {
    tools: bounds.tools,
    ask: (call, tool, input) => send({ ask: { id: job.id, call, tool, input } }),
    abused: (error) => end(error),
  });
  const end = (error: ToolError) => {
    ended.reject(error);
    // Ordinary code stops at once; what does not is the gateway's to kill.
    if (!isolate.isDisposed) isolate.dispose();
  };
  running = {
    id: job.id,
    messages,
    abort: () => end(new ToolError('CANCELLED', 'the program was ended')),
  };
  let usedMs = 0;
  const cpuMs = () => {
    // One that is disposed tells nothing any more.
    if (!isolate.isDisposed) usedMs = Number(isolate.cpuTime) / 1e6;
    return usedMs;
  };
  const clock = setInterval(() => {
    if (cpuMs() > bounds.cpuMs) end(cpuLimit(bounds.cpuMs));
  }, CPU_LOOK_MS);
  let result: JobResult;
  try {
    const text = await Promise.race([
      evaluate({ isolate, setUp }, job.input as Program, bounds, messages),
      ended.promise,
    ]);
    result = outcomeOf(text, { logs: messages.logs, limit: bounds.resultBytes, cpuMs: cpuMs() });
  } catch (thrown) {
    result = failure(thrown, messages, bounds, cpuMs());
  } finally {
    clearInterval(clock);
    messages.close();
  }
  running = undefined;
  answer(job.id, result);
  if (!isolate.isDisposed) isolate.dispose();
  // After anything else this process is ended.
  if (result.usage.verdict === 'ok') fresh = prepare(bounds.memoryMb);
}

/** The program's source goes in as a string, and one string comes out. */
async function evaluate(
  { isolate, setUp }: Pick<Fresh, 'isolate' | 'setUp'>,
  { code, input }: Program,
  { tools, resultBytes }: IsolateBounds,
  messages: IsolateMessages,
): Promise<unknown> {
  const begin = await setUp;
  const { codeLogsMax: logs, codeLogChars: logChars, codeTimersMax: timers } = limits as Limits;
  const bounds = JSON.stringify({ resultChars: resultBytes, logs, logChars, timers });
  const source = await withoutTypes(isolate, code);
  // A function without a way back: no reference to anything of ours is in there.
  const send = new ivm.Callback(messages.receive, { ignored: true });
  const deliver = await begin.apply(undefined, [send, JSON.stringify(tools), bounds], { result: { reference: true } });
  const run = (...words: (string | undefined)[]) => {
    deliver.apply(undefined, words).catch(messages.fail);
  };
  messages.connect((id, answer) => run('answer', id, answer));
  run('run', source, input === undefined ? undefined : JSON.stringify(input));
  return messages.done;
}

function cpuLimit(limit: number): ToolError {
  return new ToolError('CPU_LIMIT', `the program used more than ${limit} ms of CPU time`, {
    suggestion: 'Do less in one program, or have tools do the heavy part.',
    details: { limit, enforcedBy: 'isolate' },
  });
}

function failure(thrown: unknown, messages: IsolateMessages, { memoryMb }: IsolateBounds, cpuMs: number): JobResult {
  const logs = messages.logs.length > 0 ? { logs: messages.logs } : {};
  const usage = { cpuMs, outputBytes: 0, enforcedBy: 'isolate' } as const;
  const of = (error: ToolError, verdict: JobResult['usage']['verdict']): JobResult => {
    const { code, message, extras } = error;
    const told = new ToolError(code, message, { ...extras, details: { ...extras.details, ...logs } });
    return { ok: false, error: told.toWire(), usage: { ...usage, verdict } };
  };
  if (thrown instanceof ToolError) {
    const verdict = thrown.code === 'CPU_LIMIT' ? 'cpu' : thrown.code === 'CODE_ERROR' ? 'ok' : 'cancelled';
    return of(thrown, verdict);
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (/memory limit|allocation failed/i.test(message)) {
    const memory = new ToolError('MEMORY_LIMIT', `the program needed more than ${memoryMb} MiB of memory`, {
      details: { limit: memoryMb * MIB, enforcedBy: 'isolate' },
    });
    return of(memory, 'memory');
  }
  return of(new ToolError('CODE_ERROR', `the program could not be run: ${message.slice(0, 500)}`), 'crashed');
}

function receive(message: ToHost): void {
  if ('setup' in message) begin(message.setup);
  else if ('run' in message) {
    void run(message.run).catch((error: unknown) => {
      console.error(error);
      process.exit(1);
    });
  } else if ('answer' in message) {
    if (running?.id === message.answer.id) running.messages.answered(message.answer as ChildAnswer);
  } else if ('abort' in message && running?.id === message.abort.id) running.abort();
}

function begin(given: HostSetup): void {
  limits = given.limits;
  fresh = prepare(DEFAULT_MEMORY_MB);
  send({ ready: true });
}

/** Until the setup says more; the gateway, which sends it, bounds its own frames. */
const BEFORE_SETUP = { messageDepthMax: 64, messageElementsMax: 1_000_000 };
const reader = new FrameReader(2 ** 32 - 1);
gateway.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) receive(decode(payload, limits ?? BEFORE_SETUP) as ToHost);
});
// The gateway is gone, and with it whoever wanted our work.
gateway.on('close', () => process.exit(0));
gateway.on('error', () => process.exit(0));
