import { ToolError } from '../base/errors.ts';
import type { Powers } from '../base/powers.ts';
import { isRecord } from '../base/text/values.ts';
import type { AuditEntry, AuditLog } from '../store/audit/log.ts';
import type { CallMetrics } from '../store/telemetry/call-metrics.ts';
import { runsBy } from '../tools/runs.ts';
import { gitConfigsOf } from './execute/git-configs.ts';
import { failed, type Outcome } from './outcome.ts';
import {
  type Call,
  type CheckedCall,
  type ClearedCall,
  effectsOf,
  type Handler,
  isJudged,
  outcomeOf,
  type Stage,
} from './stage.ts';
import { verdictOf } from './verdict.ts';

/**
 * Writes a refusal or an outcome for each call to the audit log, and counts it. While the log can't be written, calls that may
 * change something end with STORE_FAILED before anybody is asked about them; reading goes on, with a warning.
 */
export const audit =
  (log: AuditLog, metrics: CallMetrics, powers: Powers): Stage =>
  (next) =>
  async (call) => {
    const startedAt = powers.monotonicMs();
    const end = (outcome: Outcome) => {
      const { usage, error, started, queuedMs } = outcome;
      const durationMs = powers.monotonicMs() - startedAt;
      const decision = last && isJudged(last) ? last.decision : undefined;
      metrics.ended({ tool: call.toolset.get(call.name)?.tool, decision, durationMs, queuedMs, error });
      // A call that never started has no outcome, even if it was allowed: it may be stale, cancelled or without a slot.
      const kind = !error || started || isPreviewed(call, last) ? 'outcome' : 'refusal';
      log.append(
        {
          ...entryOf(call, last, kind),
          // The entry of the intent holds the input already.
          ...(!outcome.intended && { input: recordedInput(last ?? call) }),
          durationMs: Math.round(durationMs * 1000) / 1000,
          code: error?.code,
          resources: usage && resourcesOf(usage, error),
          ...detailOf(call, outcome),
        },
        { isReading: kind === 'outcome' && !mayChange(call) },
      );
    };
    let last: CheckedCall | undefined;
    const watched: Call = {
      ...call,
      reached(it) {
        last = it;
        call.reached(it);
      },
    };
    const run: Handler = async () => {
      if (mayChange(call)) log.assertRoom(call.principal);
      if (log.writable) return next(watched);
      if (mayChange(call)) throw unwritable();
      const outcome = await outcomeOf(next, watched);
      return { ...outcome, warnings: [UNRECORDED, ...outcome.warnings] };
    };
    const outcome = await outcomeOf(run, call);
    try {
      end(outcome);
      return outcome;
    } catch (thrown) {
      return failed(thrown, outcome);
    }
  };

/**
 * Writes the intent of a call that may change something to disk before the call runs. Stands after the decision: an
 * intent may be large, and refused calls cost their caller nothing, so that they could fill the log.
 */
export const intent =
  (log: AuditLog): Stage<ClearedCall> =>
  (next) =>
  async (call) => {
    if (!mayChange(call) || call.checked.tier === 'read_only') return next(call);
    // Each attempt to write to a broken log may block the daemon for a second; the log tries again by itself.
    if (!log.writable) throw unwritable();
    log.append({ ...entryOf(call, call, 'intent'), input: recordedInput(call), ...parentOf(call) });
    const outcome = await outcomeOf((it) => {
      // A program only makes calls; the intents of those calls flush this entry, too.
      if (!runsBy(it.checked.tool, 'isolates')) log.flush();
      return next(it);
    }, call);
    return { ...outcome, intended: true };
  };

/** The input as its caller wrote it, or as it was narrowed, without the values that its tool keeps out of the log. */
function recordedInput({ toolset, name, rawInput }: Call): unknown {
  const unrecorded = toolset.get(name)?.tool.unrecorded;
  if (!unrecorded || !isRecord(rawInput)) return rawInput;
  const entries = Object.entries(rawInput).map(([key, it]) => [key, unrecorded.includes(key) ? hidden(it) : it]);
  return Object.fromEntries(entries);
}

/** The same shape with its values hidden, so that a backtest can still read the input. */
function hidden(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(() => HIDDEN);
  return isRecord(value) ? Object.fromEntries(Object.keys(value).map((key) => [key, HIDDEN])) : HIDDEN;
}

const HIDDEN = '[redacted]';

const mayChange = ({ toolset, name, options }: Call): boolean => {
  const tool = toolset.get(name)?.tool;
  return tool !== undefined && tool.tier !== 'read_only' && options.preview !== true;
};

/** Whether the call is a preview that was not denied. A preview starts nothing, but has an outcome. */
const isPreviewed = ({ options }: Call, last: CheckedCall | undefined): boolean =>
  options.preview === true && last !== undefined && isJudged(last) && last.decision !== 'deny';

const unwritable = () => new ToolError('STORE_FAILED', 'the audit log can not be written at the moment');

const UNRECORDED = 'the audit log could not be written; this call may not be in it';

function resourcesOf(
  usage: NonNullable<Outcome['usage']>,
  error: ToolError | undefined,
): NonNullable<AuditEntry['resources']> {
  const { cpuMs, peakBytes, outputBytes, processes, enforcedBy } = usage;
  const verdict = error ? verdictOf(error, usage.verdict) : usage.verdict;
  return {
    cpuMs,
    outputBytes,
    verdict,
    enforcedBy,
    peakBytes,
    processes,
  };
}

/** The call id of the program that made the call, for the record. */
const parentOf = ({ options: { parentCallId } }: Call): Pick<AuditEntry, 'detail'> =>
  parentCallId === undefined ? {} : { detail: { parentCallId } };

function detailOf({ options }: Call, outcome: Outcome): Pick<AuditEntry, 'detail'> {
  const { redactions, denied, connected, usage, costUsd, cached } = outcome;
  const { parentCallId } = options;
  const gitConfigs = usage ? gitConfigsOf(usage) : [];
  const detail = {
    parentCallId,
    costUsd,
    ...(cached && { cached }),
    ...(redactions > 0 && { redactions }),
    ...(connected?.length && { connected }),
    ...(gitConfigs.length > 0 && { gitConfigs }),
    denied: denied?.map(({ kind, target, rule, layer, count }) => ({ kind, target, rule, layer, count })),
  };
  return Object.values(detail).every((it) => it === undefined) ? {} : { detail };
}

/** The entry of a call that came as far as `last`. */
function entryOf(call: Call, last: CheckedCall | undefined, kind: AuditEntry['kind']): AuditEntry {
  const { id, sessionId, principal, name, toolset } = call;
  const judged = last && isJudged(last) ? last : undefined;
  return {
    kind,
    sessionId,
    principal,
    callId: id,
    tool: toolset.get(name)?.tool.name ?? name,
    effects: last && effectsOf(last),
    decision: judged?.decision,
    rule: judged?.rule,
  };
}
