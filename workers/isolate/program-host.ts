/**
 * The common part of program hosts: one program at a time, frames on fd 3 until they end. Nothing here is trusted to
 * end a program: the gateway watches the clock and this process, and kills it.
 */
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import type { ChildAnswer, FromHost, IsolateBounds, Job, JobResult, ProgramJob, ToHost } from '../../src/hosts/job.ts';
import { GATEWAY_FD, GatewayLine } from '../gateway-line.ts';
import { establishPerimeter } from '../perimeter.ts';
import { yieldToOthers } from '../priority.ts';
import { IsolateMessages } from './messages.ts';

const CPU_LOOK_MS = 20;
const MIB = 1024 * 1024;

/** A running program. */
export interface RunningProgram {
  /** The result. Rejects with a ToolError, or with the engine's error. */
  readonly result: Promise<JobResult>;
  /** CPU time so far, in ms. */
  cpuMs(): number;
  /** Ends the program; ordinary code stops at once, anything else is left to the gateway to kill. */
  end(): void;
  /** Called after the result was sent: releases the program, and after a clean end prepares for the next one. */
  release(isClean: boolean): void;
}

/** Runs programs. The process is ended after anything but a value or an error of the program. */
export interface Engine {
  /** Called once, before the first program. */
  begin(limits: Limits): void;
  start(job: Job<ProgramJob>, bounds: IsolateBounds, messages: IsolateMessages): RunningProgram;
}

/** Serves the gateway until it is gone. */
export function serveProgramHost(engine: Engine): void {
  establishPerimeter(GATEWAY_FD);
  yieldToOthers();
  new ProgramHost(engine);
}

class ProgramHost {
  readonly #engine: Engine;
  readonly #powers = systemPowers();
  readonly #gateway = new GatewayLine<ToHost, FromHost>((message) => this.#receive(message));
  #running: { readonly id: number; readonly messages: IsolateMessages; abort(): void } | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
    this.#gateway.sayUp();
  }

  #receive(message: ToHost): void {
    if ('setup' in message) {
      const { limits } = message.setup;
      this.#gateway.limits = limits;
      this.#engine.begin(limits);
      this.#send({ ready: true });
    } else if ('run' in message && 'isolate' in message.run) {
      void this.#run(message.run, this.#gateway.limits as Limits).catch((error: unknown) => {
        console.error(error);
        process.exit(1);
      });
    } else if ('answer' in message) {
      if (this.#running?.id === message.answer.id) this.#running.messages.settleCall(message.answer as ChildAnswer);
    } else if ('abort' in message && this.#running?.id === message.abort.id) this.#running.abort();
  }

  async #run(job: Job<ProgramJob>, limits: Limits): Promise<void> {
    const bounds = job.isolate;
    const ended = Promise.withResolvers<never>();
    ended.promise.catch(() => {}); // The race below reports it.
    const messages = new IsolateMessages(
      limits,
      {
        tools: bounds.tools,
        ask: (call, tool, input) => this.#send({ ask: { id: job.id, call, tool, input } }),
        log: (line) => this.#send({ log: { id: job.id, ...line } }),
        abused: (error) => end(error),
      },
      this.#powers,
    );
    const guest = this.#engine.start(job, bounds, messages);
    const end = (error: ToolError) => {
      ended.reject(error);
      guest.end();
    };
    this.#running = { id: job.id, messages, abort: () => end(new ToolError('CANCELLED', 'the program was ended')) };
    const clock = this.#powers.every(CPU_LOOK_MS, () => {
      if (guest.cpuMs() > bounds.cpuMs) end(cpuLimit(bounds.cpuMs));
    });
    let result: JobResult;
    try {
      result = await Promise.race([guest.result, ended.promise]);
    } catch (thrown) {
      result = failure(thrown, bounds, { cpuMs: guest.cpuMs(), enforcedBy: job.plugin?.isolation ?? 'isolate' });
    } finally {
      clock.cancel();
      messages.close();
    }
    this.#running = undefined;
    this.#answer(job.id, result);
    guest.release(result.usage.verdict === 'ok');
  }

  #send(message: FromHost): void {
    this.#gateway.sendForeign(message);
  }

  /** Sends a result; one that does not fit into a message fails its call, not this process. */
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
  // Only the memory limit disposes an isolate before its end was reported; code to run in it then fails because the isolate is gone.
  if (/memory limit|allocation failed|isolate is (already )?disposed/i.test(message)) {
    const memory = new ToolError('MEMORY_LIMIT', `the program needed more than ${memoryMb} MiB of memory`, {
      details: { limit: memoryMb * MIB, enforcedBy: used.enforcedBy },
    });
    return of(memory, 'memory');
  }
  return of(new ToolError('CODE_ERROR', `the program could not be run: ${message.slice(0, 500)}`), 'crashed');
}

/** Errors of the program itself, after which its host can go on. */
const VERDICTS: Partial<Record<string, JobResult['usage']['verdict']>> = {
  CPU_LIMIT: 'cpu',
  CODE_ERROR: 'ok',
  INPUT_INVALID: 'ok',
  MEMORY_LIMIT: 'memory',
};
