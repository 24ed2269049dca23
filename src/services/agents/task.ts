/**
 * One task: the conversation of a sub-agent with its model, kept by an agent process that can do nothing but ask for
 * answers of the model and for calls of the sub-agent's session.
 */

import type { CallState } from '../../base/call.ts';
import { ToolError, toToolError } from '../../base/errors.ts';
import type { Timer } from '../../base/powers.ts';
import { KnownValues } from '../../base/redact/known-values.ts';
import { mapTexts } from '../../base/text/values.ts';
import type { Isolates } from '../../hosts/isolates.ts';
import type { ChildAnswer, ChildAsk } from '../../hosts/job.ts';
import { CallClock } from '../../pipeline/execute/call-clock.ts';
import type { ChildSession, TurnCall } from '../../pipeline/execute/child-session.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import type { HttpRequest } from '../../sandbox/egress/messages.ts';
import type { HttpAnswer } from '../../sandbox/egress/proxy-messages.ts';
import type { TaskInput, TaskOutput } from '../../tools/task/delegate.ts';
import type { DaemonParts } from '../capability.ts';
import { promptText, systemText } from './instructions.ts';
import {
  type AgentJob,
  type AgentResult,
  type AnsweredAsk,
  ASK_ANSWERED,
  ASK_MODEL,
  agentResult,
  answeredAsk,
  type ModelStream,
  modelAsk,
  type TurnAnswer,
} from './messages.ts';
import { type ModelParts, ModelRequests } from './model-requests.ts';
import type { AgentProfile } from './settings.ts';
import { isOverBudget, isUnanswered, TaskReport } from './task-report.ts';
import type { TaskStore } from './task-store.ts';

export type TaskParts = ModelParts &
  Pick<DaemonParts, 'redact'> & { readonly agentHosts: Isolates; readonly taskStore: TaskStore };

export interface TaskOptions {
  readonly taskId: string;
  readonly call: ClearedCall;
  readonly profile: AgentProfile;
}

/** Memory of an agent process beyond what it takes at its start, in MiB. */
const MEMORY_MB = 64;

export class Task {
  readonly report = new TaskReport();
  readonly #options: TaskOptions;
  readonly #parts: TaskParts;
  /** Aborted when the task is to end, for whatever reason. */
  readonly #stop = new AbortController();
  /** Times of questions about calls, by call id. */
  readonly #questions = new Map<string, Timer>();
  readonly #clock: CallClock;
  #child!: ChildSession;
  #models!: ModelRequests;
  #lastText = '';

  constructor(options: TaskOptions, parts: TaskParts) {
    this.#options = options;
    this.#parts = parts;
    const { limits, powers } = parts;
    const limitMs = Math.min(this.#input.budget?.ms ?? limits.taskMs, limits.taskMs);
    this.#clock = new CallClock(limitMs, { powers, pausedMsMax: limits.codePausedMs }, () =>
      this.stop('budget', new ToolError('TIMEOUT', `the task took longer than ${limitMs} ms`)),
    );
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get #input(): TaskInput {
    return this.#options.call.checked.input as TaskInput;
  }

  /** Gives the task the session of its sub-agent. Throws COST_LIMIT. */
  begin(child: ChildSession): void {
    const { call, profile } = this.#options;
    this.#child = child;
    this.#models = new ModelRequests({ call, profile, child, signal: this.signal }, this.#parts);
  }

  /** Ends the task with everything that goes on in it. */
  stop(ended: TaskOutput['ended'], reason: ToolError): void {
    this.report.endsBy(ended, ended === 'done' ? undefined : reason.message);
    this.#stop.abort(reason);
  }

  /** Called on every change of a call of the sub-agent. */
  onState(callId: string, { status }: CallState): void {
    const isAsked = status === 'blocked-on-user';
    if (isAsked === this.#questions.has(callId)) return;
    this.#clock.pause(isAsked ? 1 : -1);
    if (!isAsked) {
      this.#questions.get(callId)?.cancel();
      this.#questions.delete(callId);
      return;
    }
    const { powers, limits } = this.#parts;
    const late = new ToolError('APPROVAL_TIMEOUT', `nobody answered within ${limits.taskQuestionMs} ms`);
    this.#questions.set(
      callId,
      powers.after(limits.taskQuestionMs, () => this.#child.abort(callId, late)),
    );
  }

  /** Runs the task to its end. Throws what kept the agent process from starting, and what ended it. */
  async run({
    fetch,
    beforeStart,
    onStarted,
  }: {
    fetch(asked: HttpRequest): Promise<HttpAnswer>;
    beforeStart(): Promise<void>;
    onStarted(): void;
  }): Promise<void> {
    const { call } = this.#options;
    const { limits, agentHosts } = this.#parts;
    const isolate = {
      tools: [ASK_MODEL, ASK_ANSWERED],
      memoryMb: MEMORY_MB,
      cpuMs: limits.codeCpuMs,
      resultBytes: limits.codeResultBytes,
    };
    const { result } = await agentHosts.run(
      { session: call.sessionId, workspace: call.workspace },
      { tool: call.checked.tool.name, input: this.#job(), isolate },
      {
        signal: this.signal,
        beforeStart,
        onStarted: () => {
          this.#clock.start();
          onStarted();
        },
        onAsk: (ask) => this.#answer(ask, fetch),
      },
    );
    if (!result.ok) throw new ToolError(result.error.code, result.error.message);
    this.#finish(agentResult.parse(result.data));
  }

  /** Ends what belongs to the task, and gives its result. */
  async close(): Promise<TaskOutput> {
    this.#clock.stop();
    for (const it of this.#questions.values()) it.cancel();
    await this.#child.end('the task is over');
    this.#models.settle(undefined);
    const { taskId } = this.#options;
    const said = this.#said ?? { summary: this.#lastText };
    return this.report.toOutput({ taskId, usage: this.#models.usage, ...said });
  }

  /** Adds to the transcript, without secrets. */
  write(entry: object): void {
    const { taskStore, redact, powers, limits } = this.#parts;
    const at = new Date(powers.now()).toISOString();
    const hidden = this.#hide({ at, ...entry });
    taskStore.append(this.#options.taskId, redact(cutTexts(hidden, limits.taskResultChars)) as object);
  }

  #said: Pick<TaskOutput, 'summary' | 'output'> | undefined;

  #job(): AgentJob {
    const { profile } = this.#options;
    const { output } = this.#input;
    const words = { system: systemText(profile, this.#input), prompt: promptText(this.#input) };
    return { dialect: profile.dialect, ...words, output };
  }

  #finish(given: AgentResult): void {
    const { text, output, problem } = this.#hide(given) as AgentResult;
    if (problem === undefined) this.report.endsBy('done');
    else this.report.endsBy('error', problem);
    this.#said = this.#input.output && output !== undefined ? { output } : { summary: text };
  }

  /** Answers what the agent process asks for; never rejects. */
  async #answer(
    { tool, input }: ChildAsk,
    fetch: (asked: HttpRequest) => Promise<HttpAnswer>,
  ): Promise<Omit<ChildAnswer, 'id' | 'call'>> {
    try {
      if (tool === ASK_MODEL) return { data: await this.#askModel(input, fetch) };
      if (tool === ASK_ANSWERED) return { data: await this.#takeAnswer(answeredAsk.parse(input)) };
      throw new ToolError('TOOL_NOT_FOUND', `an agent process may not ask for ${tool.slice(0, 64)}`);
    } catch (thrown) {
      const error = toToolError(thrown);
      this.report.endsBy(error.code === 'COST_LIMIT' ? 'budget' : 'error', error.message);
      return { error: error.toWire() };
    }
  }

  async #askModel(input: unknown, fetch: (asked: HttpRequest) => Promise<HttpAnswer>): Promise<ModelStream> {
    if (this.#models.usage.cycles >= this.#input.maxCycles)
      throw new ToolError('RATE_LIMITED', 'the agent process asked for more answers than the task has');
    return { body: await this.#models.ask(modelAsk.parse(input), fetch) };
  }

  /** Runs the calls of an answer, and says whether the task goes on. */
  async #takeAnswer(given: AnsweredAsk): Promise<TurnAnswer> {
    const { powers } = this.#parts;
    const { text, calls, malformed, cut } = this.#hide(given) as AnsweredAsk;
    const isSqueezed = cut && this.#models.isSqueezed;
    this.#models.settle(given.usage);
    this.#lastText = text;
    const turn = calls.map(({ tool, input }): TurnCall => ({ callId: powers.uuid(), tool, input }));
    this.write({ kind: 'answer', text, calls: turn, ...(malformed.length > 0 && { malformed }) });
    this.#tell(text);
    if (isSqueezed) this.report.endsBy('budget', 'the budget had no room for all of the last answer');
    const goesOn = turn.length + malformed.length > 0;
    if (goesOn && this.#models.usage.cycles >= this.#input.maxCycles)
      this.report.endsBy('cycles', `its model answered ${this.#input.maxCycles} times, and had not ended`);
    if (this.report.end || turn.length === 0) return { results: [], over: this.report.end !== undefined };
    return this.#runTurn(
      turn,
      calls.map(({ id }) => id),
    );
  }

  async #runTurn(turn: readonly TurnCall[], ids: readonly string[]): Promise<TurnAnswer> {
    const { limits } = this.#parts;
    for (const { tool, input } of turn) this.#tell(`→ ${tool} ${shownInLine(JSON.stringify(input))}`);
    const results = await this.#child.run(turn, this.signal);
    this.report.add(results);
    for (const { result, text } of results) {
      const { callId, tool, success } = result;
      this.write({ kind: 'result', callId, tool, success, text });
      const told = success ? this.#hide(shownInLine(text)) : result.error.message;
      this.#tell(`${success ? '✓' : '✗'} ${tool}: ${String(told)}`);
    }
    const spent = results.map(({ result }) => result).find(isOverBudget);
    if (spent && !spent.success) this.report.endsBy('budget', spent.error.message);
    if (results.every(({ result }) => isUnanswered(result)))
      this.report.endsBy('refused', 'nobody answered the questions about its calls');
    return {
      results: results.map(({ result, text }, at) => ({
        id: ids[at] as string,
        text: shortened(text, limits.taskResultChars, result.callId),
        success: result.success,
      })),
      over: this.report.end !== undefined,
    };
  }

  /** Shows a line of progress to the caller. */
  #tell(line: string): void {
    if (line !== '') void this.#options.call.output('stdout', Buffer.from(`${line}\n`));
  }

  /** The value without the key of the model, which its answers may repeat in pieces. */
  #hide(value: unknown): unknown {
    return new KnownValues(this.#models.secrets).hideAll(value);
  }
}

/** Characters of the arguments or the result of a call in a line of progress. */
const PROGRESS_CHARS = 200;
const shownInLine = (text: string): string => {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length <= PROGRESS_CHARS ? line : `${line.slice(0, PROGRESS_CHARS - 1).toWellFormed()}…`;
};

const cutTexts = (value: unknown, charsMax: number): unknown => mapTexts(value, (text) => shortened(text, charsMax));

/** The text, or its beginning and its end with a note of what is left out. */
export function shortened(text: string, charsMax: number, callId?: string): string {
  if (text.length <= charsMax) return text;
  const half = Math.floor(charsMax / 2);
  const of = callId === undefined ? '' : ` of the result of call ${callId}`;
  const left = `[… ${text.length - 2 * half} characters${of} are left out …]`;
  return `${text.slice(0, half).toWellFormed()}\n${left}\n${text.slice(-half).toWellFormed()}`;
}
