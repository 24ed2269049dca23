/** Entry of an agent process: keeps the conversation of one sub-agent at a time. It sees no workspace and no network. */

import { ToolError, type WireError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { parseJson } from '../../src/base/text/json.ts';
import type { IsolateBounds, JobResult, ProgramJob } from '../../src/hosts/job.ts';
import {
  type AgentJob,
  ASK_ANSWERED,
  ASK_MODEL,
  type ModelStream,
  type TurnAnswer,
} from '../../src/services/agents/messages.ts';
import type { IsolateMessages } from '../isolate/messages.ts';
import { type Engine, type RunningProgram, serveProgramHost } from '../isolate/program-host.ts';
import { runLoop } from './loop.ts';

class Agents implements Engine {
  #limits!: Limits;

  begin(limits: Limits): void {
    this.#limits = limits;
  }

  start({ input }: ProgramJob, bounds: IsolateBounds, messages: IsolateMessages): RunningProgram {
    const before = process.cpuUsage();
    const cpuMs = () => {
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000;
    };
    const result = run(input as AgentJob, { messages, limits: this.#limits, cpuMs, bytesMax: bounds.resultBytes });
    // Nothing is left to end here: the pipeline stops answering the questions of the loop.
    return { result, cpuMs, end() {}, release() {} };
  }
}

interface LoopParts {
  readonly messages: IsolateMessages;
  readonly limits: Limits;
  readonly bytesMax: number;
  cpuMs(): number;
}

async function run(job: AgentJob, { messages, limits, cpuMs, bytesMax }: LoopParts): Promise<JobResult> {
  const asking = new Asking(messages);
  const given = await runLoop(
    job,
    {
      askModel: (asked) => asking.ask(ASK_MODEL, asked) as Promise<ModelStream>,
      answered: (answer) => asking.ask(ASK_ANSWERED, answer) as Promise<TurnAnswer>,
    },
    limits,
  );
  const outputBytes = Buffer.byteLength(JSON.stringify(given));
  if (outputBytes > bytesMax)
    throw new ToolError('OUTPUT_LIMIT', `the last answer has ${outputBytes} bytes; at most ${bytesMax} are given`);
  return { ok: true, data: given, usage: { cpuMs: cpuMs(), outputBytes, verdict: 'ok', enforcedBy: 'isolate' } };
}

/** Asks the gateway, by the messages that programs make calls with. */
class Asking {
  readonly #messages: IsolateMessages;
  readonly #waiting = new Map<string, { resolve(data: unknown): void; reject(error: ToolError): void }>();
  #asked = 0;

  constructor(messages: IsolateMessages) {
    this.#messages = messages;
    messages.connect((id, answer) => this.#settle(id, answer));
  }

  ask(name: string, input: object): Promise<unknown> {
    const id = String(++this.#asked);
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#messages.receive('call', id, name, JSON.stringify(input));
    });
  }

  /** An answer begins with `d` for data or `e` for an error. */
  #settle(id: string, answer: string): void {
    const asked = this.#waiting.get(id);
    this.#waiting.delete(id);
    const value = parseJson(answer.slice(1));
    if (answer.startsWith('d')) return asked?.resolve(value);
    const { code, message } = value as WireError;
    asked?.reject(new ToolError(code, message));
  }
}

serveProgramHost(new Agents());
