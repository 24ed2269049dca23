/** A call as an operator sees it in the list of all sessions. */
import type { CallRecord, Effect, Tier } from '../../base/call.ts';
import { redactText } from '../../base/redact.ts';
import type { RetainedCall } from '../kept-calls.ts';

export interface RunningCall extends Omit<CallRecord, 'result'> {
  readonly workspace: string;
  readonly principal: string;
  /** Name and version that the client gave. */
  readonly client: string;
  readonly effects: readonly Effect[];
}

export interface ListedCall extends RunningCall {
  /** What the call is about: a command, a path, an address. */
  readonly summary: string;
  readonly tier?: Tier | undefined;
  /** The call whose program made it. */
  readonly parentCallId?: string | undefined;
  readonly durationMs?: number | undefined;
  /** The code of its error. */
  readonly code?: string;
  /** The exit code of its command, unless that is 0. */
  readonly exitCode?: number;
}

export interface RunningCallFacts {
  readonly record: CallRecord;
  readonly effects: readonly Effect[];
  readonly workspace: string;
  readonly principal: string;
  readonly client?: string;
}

/** Most effects shown of a running call. */
const EFFECTS_SHOWN = 4;
const TARGET_CHARS = 256;
const SUMMARY_CHARS = 200;
/** Parameters that say best what a call is about, the best first. */
const TELLING = ['command', 'path', 'url', 'pattern', 'query', 'name', 'code', 'input'];

export function toRunning({ record, effects, workspace, principal, client = '' }: RunningCallFacts): RunningCall {
  const { result: _, ...known } = record;
  const shown = effects.slice(0, EFFECTS_SHOWN).map(({ kind, target }) => ({
    kind,
    target: redactText(target).slice(0, TARGET_CHARS),
  }));
  return { ...known, workspace, principal, client, effects: shown };
}

export function toListed(call: RetainedCall['call'], facts: RunningCallFacts): ListedCall {
  const { result } = facts.record;
  const { exitCode } = ((result?.success ? result.data : undefined) ?? {}) as { exitCode?: unknown };
  const tier = result?.metadata.tier ?? call.toolset.get(call.name)?.tool.tier;
  return {
    ...toRunning(facts),
    summary: summaryOnce(call),
    tier,
    parentCallId: call.options.parentCallId,
    durationMs: result?.metadata.durationMs,
    ...(result?.success === false && { code: result.error.code }),
    ...(tier === 'execute' && Number.isInteger(exitCode) && exitCode !== 0 && { exitCode: exitCode as number }),
  };
}

/** Summaries of calls that were listed: several panels list the same calls again and again. */
const summaries = new WeakMap<RetainedCall['call'], string>();

function summaryOnce(call: RetainedCall['call']): string {
  const known = summaries.get(call) ?? summaryOf(call.rawInput);
  summaries.set(call, known);
  return known;
}

/** The most telling text of an input, in one line and without secrets. */
function summaryOf(input: unknown): string {
  const parameters = (typeof input === 'object' && input !== null ? input : {}) as Readonly<Record<string, unknown>>;
  const telling = TELLING.map((it) => parameters[it]).find((it) => typeof it === 'string');
  const text = (telling as string | undefined) ?? Object.values(parameters).find((it) => typeof it === 'string') ?? '';
  // Cut before it is searched for secrets, and after it, so that no half of one is left.
  const start = redactText((text as string).slice(0, SUMMARY_CHARS * 2).toWellFormed());
  return start.replaceAll(/\s+/g, ' ').slice(0, SUMMARY_CHARS).toWellFormed();
}
