/** Runs a caller's program in an isolate host. Each call that the program makes goes through the whole pipeline, in the same session. */

import type { CallState, ToolResult } from '../../base/call.ts';
import { ToolError, type WireError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Isolates, ProgramRequest } from '../../hosts/isolates.ts';
import type { ChildAnswer, ChildAsk, IsolateBounds, JobResult, LogLine } from '../../hosts/job.ts';
import type { RunResult } from '../../hosts/runs.ts';
import { leastOf, timeLimitOf } from '../../pipeline/execute/bounds.ts';
import { CallClock } from '../../pipeline/execute/call-clock.ts';
import { ranOutcome } from '../../pipeline/execute/ran-outcome.ts';
import { timeout } from '../../pipeline/execute/read-only-run.ts';
import type { Runner } from '../../pipeline/execute/runner.ts';
import type { RunHooks } from '../../pipeline/outcome.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import { runsBy } from '../../tools/runs.ts';
import type { DaemonParts } from '../capability.ts';
import { pluginJobOf } from './plugin-call.ts';

export type ProgramParts = Pick<DaemonParts, 'limits' | 'powers' | 'outsideProblem'> &
  Readonly<Record<'isolates' | 'compartments', Isolates>>;

/** Runs programs of callers and plugins. No path rules apply: a program sees no paths. */
export const programRunner = (parts: ProgramParts): Runner<'isolates'> => ({
  async run(_, call, hooks) {
    return ranOutcome(await runProgram(call, parts, hooks), call, { ...hooks, parts });
  },
});

/** The input of a tool that runs its caller's program. */
export interface ProgramInput {
  readonly code: string;
  readonly input?: unknown;
  readonly tools?: readonly string[] | undefined;
  readonly memoryMb?: number | undefined;
}

/** Runs the program of a call; `beforeStart` can still refuse it. Throws what ended the program, and what `beforeStart` throws. */
async function runProgram(
  call: ClearedCall,
  { isolates, compartments, limits, powers }: ProgramParts,
  { attempt, beforeStart }: RunHooks,
): Promise<RunResult> {
  const plugin = runsBy(call.checked.tool, 'isolates')?.plugin;
  const { signal } = call.controller;
  const limitMs = timeLimitOf(call, limits);
  const clock = new CallClock(limitMs, { powers, pausedMsMax: limits.codePausedMs }, () =>
    call.controller.abort(timeout(call.checked, limitMs)),
  );
  // Aborts the program's calls when the program ends, for whatever reason.
  const children = new AbortController();
  const job = plugin ? pluginJobOf(call, plugin, limits) : programJobOf(call, limits);
  const { isolate } = job;
  const hosts = plugin?.code.isolation === 'compartment' ? compartments : isolates;
  const { session, workspace } = { session: call.sessionId, workspace: call.workspace };
  const logs: LogLine[] = [];
  try {
    const ran = await hosts.run({ session, workspace }, job, {
      signal,
      beforeStart,
      onLog: plugin ? ({ text }) => void call.output('stderr', Buffer.from(`${text}\n`)) : (line) => logs.push(line),
      onAsk: (ask) => answerTo(ask, { call, isolate, limits, clock, signal: children.signal }),
      onStarted: () => {
        attempt.started = true;
        clock.start();
        call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
      },
    });
    return plugin ? ran : { ...ran, result: withLogs(ran.result, logs) };
  } catch (error) {
    // Killing the host of an aborted call looks like a crash: report the reason of the abort instead.
    const reason: unknown = signal.aborted ? signal.reason : error;
    throw reason instanceof ToolError ? toldWith(logs, reason) : reason;
  } finally {
    clock.stop();
    const by = signal.aborted ? (signal.reason as ToolError).message : 'the program that made this call ended';
    children.abort(new ToolError('CANCELLED', by, { details: { by: 'program' } }));
  }
}

/** Adds the program's console output to its result or error. */
function withLogs(result: JobResult, logs: readonly LogLine[]): JobResult {
  if (result.ok) return { ...result, data: { ...(result.data as object), logs } };
  if (logs.length === 0) return result;
  return { ...result, error: { ...result.error, details: { ...result.error.details, logs } } };
}

function toldWith(logs: readonly LogLine[], error: ToolError): ToolError {
  if (logs.length === 0) return error;
  const { code, message, extras } = error;
  return new ToolError(code, message, { ...extras, details: { ...extras.details, logs } });
}

function programJobOf(call: ClearedCall, limits: Limits): ProgramRequest {
  const { tool, input } = call.checked;
  const { code, input: value } = input as ProgramInput;
  return {
    tool: tool.name,
    input: { code, input: value },
    isolate: boundsOf(call, limits),
  };
}

/** The bounds of a program. It may call the tools that its caller lists among the session's, but no other program. */
function boundsOf(call: ClearedCall, limits: Limits): IsolateBounds {
  const { tools: asked, memoryMb = DEFAULT_MEMORY_MB } = call.checked.input as ProgramInput;
  const callable = [...call.toolset].filter(([, { tool }]) => !runsBy(tool, 'isolates')).map(([name]) => name);
  const unknown = asked?.filter((it) => !callable.includes(it)) ?? [];
  if (unknown.length > 0)
    throw new ToolError(
      'TOOL_NOT_FOUND',
      `a program can't call the tool ${unknown.slice(0, 8).join(', ')}: no such tool in this session`,
    );
  const of = (key: 'cpuMs' | 'memoryMb' | 'outputBytes', most: number) =>
    leastOf(call.policy, { tier: 'execute', key, most });
  return {
    tools: asked ?? callable,
    memoryMb: Math.max(of('memoryMb', Math.min(memoryMb, limits.codeMemoryMb)), MEMORY_MB_MIN),
    cpuMs: of('cpuMs', limits.codeCpuMs),
    resultBytes: of('outputBytes', limits.codeResultBytes),
  };
}

const DEFAULT_MEMORY_MB = 64;
/** The engine does not start with less. */
const MEMORY_MB_MIN = 8;

/** Runs one call for a program; never rejects. */
async function answerTo(
  { tool, input }: ChildAsk,
  {
    call,
    isolate,
    limits,
    clock,
    signal,
  }: { call: ClearedCall; isolate: IsolateBounds; limits: Limits; clock: CallClock; signal: AbortSignal },
): Promise<Omit<ChildAnswer, 'id' | 'call'>> {
  // Checked here again: a compromised host may lie.
  if (!call.child || !isolate.tools.includes(tool))
    return { error: new ToolError('TOOL_NOT_FOUND', `this program may not call ${tool.slice(0, 64)}`).toWire() };
  let isPaused = false;
  const onState = ({ status }: CallState) => {
    const isBlocked = status === 'blocked-on-user';
    if (isBlocked === isPaused) return;
    isPaused = isBlocked;
    clock.pause(isBlocked ? 1 : -1);
  };
  const result = await call.child(tool, input, { signal, onState });
  if (isPaused) clock.pause(-1);
  return toAnswer(result, limits);
}

function toAnswer(result: ToolResult, { codeAnswerBytes: limit }: Limits): { data: unknown } | { error: WireError } {
  if (!result.success) return { error: result.error };
  const used = sizeOf(result.data);
  if (used <= limit) return { data: result.data };
  const error = new ToolError('OUTPUT_LIMIT', `the result is about ${used} bytes; a program gets at most ${limit}`, {
    suggestion: 'Ask for a smaller part of it.',
    details: { limit, used },
  });
  return { error: error.toWire() };
}

/** Approximate bytes of the value as JSON. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 8;
  return Object.entries(value).reduce((sum, [key, it]) => sum + key.length + 4 + sizeOf(it), 2);
}
