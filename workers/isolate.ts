/** Entry of an isolate host: runs programs of callers and tools of plugins, each in an isolate of its own. */

import type { Limits } from '../src/base/limits.ts';
import type { IsolateBounds, JobResult, ProgramJob } from '../src/hosts/job.ts';
import type { IsolateMessages } from './isolate/messages.ts';
import { isUnparsed, outcomeOf, withoutTypes } from './isolate/outcome.ts';
import { linkTool } from './isolate/plugin-modules.ts';
import { type PreparedIsolate, PreparedIsolates } from './isolate/prepared-isolates.ts';
import { type Engine, type RunningProgram, serveProgramHost } from './isolate/program-host.ts';
import type { ProgramRights } from './isolate/program-wrapper.ts';

/** For programs that do not say. */
const DEFAULT_MEMORY_MB = 64;

interface Program {
  readonly code: string;
  readonly input?: unknown;
}

class Isolates implements Engine {
  #fresh!: PreparedIsolates;

  begin(limits: Limits): void {
    this.#fresh = new PreparedIsolates(limits);
    this.#fresh.prepare(DEFAULT_MEMORY_MB);
  }

  start(job: ProgramJob, bounds: IsolateBounds, messages: IsolateMessages): RunningProgram {
    const fresh = this.#fresh.take(bounds.memoryMb);
    const { isolate, memoryMb } = fresh;
    let usedMs = 0;
    const cpuMs = () => {
      // A disposed isolate has no CPU time any more.
      if (!isolate.isDisposed) usedMs = Number(isolate.cpuTime) / 1e6;
      return usedMs;
    };
    const end = () => {
      if (!isolate.isDisposed) isolate.dispose();
    };
    const release = (isClean: boolean) => {
      end();
      if (isClean) this.#fresh.prepare(memoryMb);
    };
    return { result: run(job, fresh, { bounds, messages, cpuMs }), cpuMs, end, release };
  }
}

interface ProgramRun {
  readonly bounds: IsolateBounds;
  readonly messages: IsolateMessages;
  cpuMs(): number;
}

async function run(
  { input, plugin }: ProgramJob,
  fresh: PreparedIsolate,
  { bounds, messages, cpuMs }: ProgramRun,
): Promise<JobResult> {
  const deliver = fresh.connect(messages.receive);
  const tell: typeof deliver = (...words) =>
    deliver(...words).catch((error: unknown) => {
      if (fresh.isolate.isDisposed) messages.fail(error);
      else messages.unhandled(error);
    });
  messages.connect((id, answer) => void tell('answer', id, answer));
  const grant: ProgramRights = { tools: bounds.tools, resultChars: bounds.resultBytes };
  if (plugin) {
    const { endOfPlugin } = await import('./isolate/plugin-outcome.ts');
    return endOfPlugin(plugin, input, { limit: bounds.resultBytes, cpuMs }, async (json) => {
      const tool = await linkTool(plugin, fresh);
      const done = messages.nextEnd();
      void tell('call', '', json, JSON.stringify(grant), tool);
      return done;
    });
  }
  const { code, input: value } = input as Program;
  const endOf = (source: string) => {
    const done = messages.nextEnd();
    void tell('run', source, value === undefined ? undefined : JSON.stringify(value), JSON.stringify(grant));
    return done;
  };
  const end = await endOf(code);
  // Most sources are JavaScript, and are compiled only once.
  const source = isUnparsed(end) ? await withoutTypes(fresh.isolate, code) : undefined;
  const text = source === undefined ? end : await endOf(source);
  return outcomeOf(text, { limit: bounds.resultBytes, cpuMs: cpuMs() });
}

serveProgramHost(new Isolates());
