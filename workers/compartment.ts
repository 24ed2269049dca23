/**
 * Entry of a compartment host: runs tools of reviewed plugins, one call at a time, in one realm that was locked down
 * before any plugin was loaded. The realm belongs to a thread: a call that does not end is ended with the thread, and
 * the next call gets another one.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { ToolError } from '../src/base/errors.ts';
import type { Limits } from '../src/base/limits.ts';
import type { PluginCode } from '../src/base/plugin-code.ts';
import type { IsolateBounds, Job, JobResult, ProgramJob } from '../src/hosts/job.ts';
import type { FromThread, ToThread } from './isolate/compartment-messages.ts';
import type { IsolateMessages } from './isolate/messages.ts';
import { endOfPlugin } from './isolate/plugin-outcome.ts';
import { type Engine, type RunningProgram, serveProgramHost } from './isolate/program-host.ts';
import type { GuestBounds, ProgramRights } from './isolate/program-wrapper.ts';

const MIB = 1024 * 1024;

class Compartments implements Engine {
  #bounds!: GuestBounds;
  #thread: Worker | undefined;
  #memoryMb = 0;

  begin({ codeLogsMax: logs, codeLogChars: logChars, codeTimersMax: timers }: Limits): void {
    this.#bounds = { logs, logChars, timers };
  }

  start(job: Job<ProgramJob>, bounds: IsolateBounds, messages: IsolateMessages): RunningProgram {
    const { input, plugin } = job;
    const thread = this.#threadOf(bounds.memoryMb);
    const before = process.cpuUsage();
    const cpuMs = () => {
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000;
    };
    const end = () => void thread.terminate();
    const result = run({
      id: job.id,
      plugin: plugin as PluginCode,
      input,
      thread,
      guest: this.#bounds,
      bounds,
      messages,
      cpuMs,
    });
    const release = (isClean: boolean) => {
      thread
        .removeAllListeners('message')
        .removeAllListeners('error')
        .removeAllListeners('exit')
        .on('error', () => {});
      // The gateway then ends this process.
      if (!isClean) this.#thread = undefined;
    };
    return { result, cpuMs, end, release };
  }

  #threadOf(memoryMb: number): Worker {
    if (this.#thread && this.#memoryMb === memoryMb) return this.#thread;
    void this.#thread?.terminate();
    this.#memoryMb = memoryMb;
    this.#thread = new Worker(new URL(`./compartment-thread${extname(import.meta.url)}`, import.meta.url), {
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
      stdin: false,
    });
    return this.#thread;
  }
}

interface CompartmentRun {
  readonly id: number;
  readonly plugin: PluginCode;
  readonly input: unknown;
  readonly thread: Worker;
  readonly guest: GuestBounds;
  readonly bounds: IsolateBounds;
  readonly messages: IsolateMessages;
  cpuMs(): number;
}

function run({ id, plugin, input, thread, guest, bounds, messages, cpuMs }: CompartmentRun): Promise<JobResult> {
  const tell = (message: ToThread) => thread.postMessage(message);
  messages.connect((asked, answer) => tell({ answer: [asked, answer] }));
  const grant: ProgramRights = { tools: bounds.tools, resultChars: bounds.resultBytes };
  return endOfPlugin(plugin, input, { limit: bounds.resultBytes, cpuMs }, (json) => {
    const done = messages.nextEnd();
    const settled = Promise.withResolvers<void>();
    const gone = (error: unknown) => {
      messages.fail(error);
      settled.resolve();
    };
    thread.on('message', (message: FromThread) => {
      // Messages that an earlier call left behind are ignored.
      if (message.id !== id) return;
      if ('sent' in message) messages.receive(...message.sent);
      else settled.resolve();
    });
    thread.on('error', (error: NodeJS.ErrnoException) => gone(endOf(error, bounds)));
    thread.on('exit', () => gone(new ToolError('CANCELLED', 'the thread of this call was ended')));
    tell({ call: { id, plugin, input: json, guest: JSON.stringify(guest), grant: JSON.stringify(grant) } });
    // A call that goes on after its end would use the time of the next call, which may be another plugin's.
    return done.finally(() => {
      tell({ settle: id });
      return settled.promise;
    });
  });
}

function endOf(error: NodeJS.ErrnoException, { memoryMb }: IsolateBounds): unknown {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return error;
  return new ToolError('MEMORY_LIMIT', `the plugin needed more than ${memoryMb} MiB of memory`, {
    details: { limit: memoryMb * MIB, enforcedBy: 'compartment' },
  });
}

serveProgramHost(new Compartments());
