/**
 * What every host of programs does: one program at a time, frames over fd 3 until they end. Nothing here is trusted to end a
 * program: the gateway looks at the clock and at this process, and kills it.
 */
import { Socket } from 'node:net';
import { ToolError } from '../src/errors.ts';
import {
  type ChildAnswer,
  type FromHost,
  type IsolateBounds,
  type Job,
  type JobResult,
  type ToHost,
  UP,
  UP_FRAME_BYTES,
} from '../src/hosts/job.ts';
import type { Limits } from '../src/limits.ts';
import { decode } from '../src/protocol/codec.ts';
import { FrameReader, toFrame } from '../src/protocol/frame.ts';
import { IsolateMessages } from './isolate-messages.ts';
import { yieldToOthers } from './nice.ts';
import { establishPerimeter } from './perimeter.ts';

const GATEWAY_FD = 3;
const CPU_LOOK_MS = 20;
const MIB = 1024 * 1024;

/** A program under way. */
export interface Guest {
  /** What came of it. Rejects with a ToolError, or with what the engine says. */
  readonly result: Promise<JobResult>;
  /** CPU time so far. */
  cpuMs(): number;
  /** Ends it where it is; ordinary code stops at once, what does not is the gateway's to kill. */
  end(): void;
  /** Called when its result is on its way: lets go of it, and where all went well makes ready for the next. */
  release(isClean: boolean): void;
}

/** What runs programs; after anything but a value or an error of the program, its process is ended. */
export interface Engine {
  /** Called once, before the first program. */
  begin(limits: Limits): void;
  start(job: Job, bounds: IsolateBounds, messages: IsolateMessages): Guest;
}

/** Levels and values that the gateway's own messages add around a result. */
const ENVELOPE = { depth: 8, elements: 1000 };
/** Until the setup says more; the gateway, which sends it, bounds its own frames. */
const BEFORE_SETUP = { messageDepthMax: 64, messageElementsMax: 1_000_000 };

/** Serves the gateway until it is gone. */
export function serveProgramHost(engine: Engine): void {
  establishPerimeter(GATEWAY_FD);
  yieldToOthers();
  new ProgramHost(engine);
}

class ProgramHost {
  readonly #engine: Engine;
  readonly #gateway = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });
  #limits: Limits | undefined;
  #running: { readonly id: number; readonly messages: IsolateMessages; abort(): void } | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
    const reader = new FrameReader(2 ** 32 - 1);
    this.#gateway.on('data', (chunk: Buffer) => {
      for (const payload of reader.push(chunk)) this.#receive(decode(payload, this.#limits ?? BEFORE_SETUP) as ToHost);
    });
    // The gateway is gone, and with it whoever wanted our work.
    this.#gateway.on('close', () => process.exit(0));
    this.#gateway.on('error', () => process.exit(0));
    this.#gateway.write(toFrame(UP, UP_FRAME_BYTES));
  }

  #receive(message: ToHost): void {
    if ('setup' in message) {
      this.#limits = message.setup.limits;
      this.#engine.begin(this.#limits);
      this.#send({ ready: true });
    } else if ('run' in message) {
      void this.#run(message.run, this.#limits as Limits).catch((error: unknown) => {
        console.error(error);
        process.exit(1);
      });
    } else if ('answer' in message) {
      if (this.#running?.id === message.answer.id) this.#running.messages.answered(message.answer as ChildAnswer);
    } else if ('abort' in message && this.#running?.id === message.abort.id) this.#running.abort();
  }

  async #run(job: Job, limits: Limits): Promise<void> {
    const bounds = job.isolate as IsolateBounds;
    const ended = Promise.withResolvers<never>();
    ended.promise.catch(() => {}); // Told by the race below.
    const messages = new IsolateMessages(limits, {
      tools: bounds.tools,
      ask: (call, tool, input) => this.#send({ ask: { id: job.id, call, tool, input } }),
      log: (line) => this.#send({ log: { id: job.id, ...line } }),
      abused: (error) => end(error),
    });
    const guest = this.#engine.start(job, bounds, messages);
    const end = (error: ToolError) => {
      ended.reject(error);
      guest.end();
    };
    this.#running = { id: job.id, messages, abort: () => end(new ToolError('CANCELLED', 'the program was ended')) };
    const clock = setInterval(() => {
      if (guest.cpuMs() > bounds.cpuMs) end(cpuLimit(bounds.cpuMs));
    }, CPU_LOOK_MS);
    let result: JobResult;
    try {
      result = await Promise.race([guest.result, ended.promise]);
    } catch (thrown) {
      result = failure(thrown, bounds, { cpuMs: guest.cpuMs(), enforcedBy: job.plugin?.isolation ?? 'isolate' });
    } finally {
      clearInterval(clock);
      messages.close();
    }
    this.#running = undefined;
    this.#answer(job.id, result);
    guest.release(result.usage.verdict === 'ok');
  }

  #send(message: FromHost): void {
    const { frameBytesMax, messageDepthMax, messageElementsMax } = this.#limits as Limits;
    const bounds = {
      messageDepthMax: messageDepthMax - ENVELOPE.depth,
      messageElementsMax: messageElementsMax - ENVELOPE.elements,
    };
    this.#gateway.write(toFrame(message, frameBytesMax, bounds));
  }

  /** Sends a result; one that no message can hold ends its call, not this process. */
  #answer(id: number, result: JobResult): void {
    try {
      this.#send({ done: { id, result } });
    } catch (thrown) {
      const message = `the value does not fit a message: ${(thrown as Error).message}`;
      const error = new ToolError('OUTPUT_LIMIT', message, { suggestion: 'Return a part of it.' }).toWire();
      this.#send({ done: { id, result: { ok: false, error, usage: { ...result.usage, verdict: 'output' } } } });
    }
  }
}

function cpuLimit(limit: number): ToolError {
  return new ToolError('CPU_LIMIT', `the program used more than ${limit} ms of CPU time`, {
    suggestion: 'Do less in one program, or have tools do the heavy part.',
    details: { limit, enforcedBy: 'isolate' },
  });
}

function failure(
  thrown: unknown,
  { memoryMb }: IsolateBounds,
  used: { readonly cpuMs: number; readonly enforcedBy: string },
): JobResult {
  const usage = { ...used, outputBytes: 0 };
  const of = (error: ToolError, verdict: JobResult['usage']['verdict']): JobResult => ({
    ok: false,
    error: error.toWire(),
    usage: { ...usage, verdict },
  });
  if (thrown instanceof ToolError) return of(thrown, VERDICTS[thrown.code] ?? 'cancelled');
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  // Nobody but its memory limit disposes an isolate before its end was told; what was to be run in it then says only that it is gone.
  if (/memory limit|allocation failed|isolate is (already )?disposed/i.test(message)) {
    const memory = new ToolError('MEMORY_LIMIT', `the program needed more than ${memoryMb} MiB of memory`, {
      details: { limit: memoryMb * MIB, enforcedBy: used.enforcedBy },
    });
    return of(memory, 'memory');
  }
  return of(new ToolError('CODE_ERROR', `the program could not be run: ${message.slice(0, 500)}`), 'crashed');
}

/** What is the program's own doing leaves its host as it was. */
const VERDICTS: Partial<Record<string, JobResult['usage']['verdict']>> = {
  CPU_LIMIT: 'cpu',
  CODE_ERROR: 'ok',
  INPUT_INVALID: 'ok',
  MEMORY_LIMIT: 'memory',
};
