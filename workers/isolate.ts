/**
 * Entry of an isolate host: one program at a time, each in an isolate of its own, frames over fd 3 until they end.
 * Nothing here is trusted to end a program: the gateway looks at the clock and at this process, and kills it.
 */
import { Socket } from 'node:net';
import { setPriority } from 'node:os';
import { ToolError } from '../src/errors.ts';
import type { ChildAnswer, FromHost, HostSetup, IsolateBounds, Job, JobResult, ToHost } from '../src/hosts/job.ts';
import type { Limits } from '../src/limits.ts';
import { decode } from '../src/protocol/codec.ts';
import { FrameReader, toFrame } from '../src/protocol/frame.ts';
import { type Fresh, FreshIsolates } from './isolate-fresh.ts';
import type { Grant } from './isolate-guest.ts';
import { IsolateMessages } from './isolate-messages.ts';
import { isUnparsed, outcomeOf, withoutTypes } from './isolate-outcome.ts';
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
let isolates: FreshIsolates | undefined;
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

async function run(job: Job): Promise<void> {
  const bounds = job.isolate as IsolateBounds;
  const fresh = (isolates as FreshIsolates).take(bounds.memoryMb);
  const { isolate } = fresh;
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => {}); // Told by the race below.
  const messages = new IsolateMessages(limits as Limits, {
    tools: bounds.tools,
    ask: (call, tool, input) => send({ ask: { id: job.id, call, tool, input } }),
    log: (line) => send({ log: { id: job.id, ...line } }),
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
    const text = await Promise.race([evaluate(fresh, job.input as Program, bounds, messages), ended.promise]);
    result = outcomeOf(text, { limit: bounds.resultBytes, cpuMs: cpuMs() });
  } catch (thrown) {
    result = failure(thrown, bounds, cpuMs());
  } finally {
    clearInterval(clock);
    messages.close();
  }
  running = undefined;
  answer(job.id, result);
  if (!isolate.isDisposed) isolate.dispose();
  // After anything else this process is ended.
  if (result.usage.verdict === 'ok') isolates?.prepare(bounds.memoryMb);
}

/** The program's source goes in as a string, and one string comes out. */
async function evaluate(
  { isolate, connect }: Fresh,
  { code, input }: Program,
  { tools, resultBytes }: IsolateBounds,
  messages: IsolateMessages,
): Promise<string> {
  const deliver = connect(messages.receive);
  const tell = (...words: (string | undefined)[]) => void deliver(...words).catch(messages.fail);
  messages.connect((id, answer) => tell('answer', id, answer));
  const grant: Grant = { tools, resultChars: resultBytes };
  const endOf = (source: string) => {
    const done = messages.done();
    tell('run', source, input === undefined ? undefined : JSON.stringify(input), JSON.stringify(grant));
    return done;
  };
  const end = await endOf(code);
  // Most sources are JavaScript, and need not be looked at twice.
  const source = isUnparsed(end) ? await withoutTypes(isolate, code) : undefined;
  return source === undefined ? end : endOf(source);
}

function cpuLimit(limit: number): ToolError {
  return new ToolError('CPU_LIMIT', `the program used more than ${limit} ms of CPU time`, {
    suggestion: 'Do less in one program, or have tools do the heavy part.',
    details: { limit, enforcedBy: 'isolate' },
  });
}

function failure(thrown: unknown, { memoryMb }: IsolateBounds, cpuMs: number): JobResult {
  const usage = { cpuMs, outputBytes: 0, enforcedBy: 'isolate' } as const;
  const of = (error: ToolError, verdict: JobResult['usage']['verdict']): JobResult => ({
    ok: false,
    error: error.toWire(),
    usage: { ...usage, verdict },
  });
  if (thrown instanceof ToolError) {
    const verdict = thrown.code === 'CPU_LIMIT' ? 'cpu' : thrown.code === 'CODE_ERROR' ? 'ok' : 'cancelled';
    return of(thrown, verdict);
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  // Nobody but its memory limit disposes an isolate before its end was told; what was to be run in it then says only that it is gone.
  if (/memory limit|allocation failed|isolate is (already )?disposed/i.test(message)) {
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
  isolates = new FreshIsolates(limits);
  isolates.prepare(DEFAULT_MEMORY_MB);
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
