import { ToolError, toToolError } from '../errors.ts';
import type { Powers } from '../powers.ts';
import type { AuditEntry, AuditLog } from '../store/audit-log.ts';
import type { Outcome } from './outcome.ts';
import type { Call, Stage } from './stage.ts';
import { verdictOf } from './verdict.ts';

/**
 * Records each call that is refused and what came of each that is not. A log that can't be written refuses what may change
 * something (STORE_FAILED) before anybody is asked about it; reading goes on, with a warning.
 */
export const audit =
  (log: AuditLog, powers: Powers): Stage =>
  (next) =>
  async (call) => {
    const startedAt = powers.monotonicMs();
    const end = (kind: 'outcome' | 'refusal', error?: ToolError) => {
      const { usage } = call.outcome;
      log.append(
        {
          ...entryOf(call, kind),
          // An intent has told it already.
          ...(!call.intended && { input: call.rawInput }),
          durationMs: Math.round((powers.monotonicMs() - startedAt) * 1000) / 1000,
          ...(error && { code: error.code }),
          ...(usage && { resources: resourcesOf(usage, error) }),
          ...detailOf(call),
        },
        { isReading: kind === 'outcome' && !mayChange(call) },
      );
    };
    try {
      if (mayChange(call)) log.assertRoom(call.principal);
      if (!log.writable) {
        if (mayChange(call)) throw unwritable();
        warn(call);
      }
      const data = await next(call);
      end('outcome');
      return data;
    } catch (thrown) {
      const error = toToolError(thrown);
      // What never started had no outcome, also where it was allowed: stale, cancelled, no place.
      end(call.outcome.started || isPreviewed(call) ? 'outcome' : 'refusal', error);
      throw error;
    }
  };

/**
 * Where a call may change something, its intent is on disk before anything happens. After the decision, since an intent may be
 * large: refused ones, which are free, would fill the log.
 */
export const intent =
  (log: AuditLog): Stage =>
  (next) =>
  async (call) => {
    if (mayChange(call)) {
      // A log that can't be written may hold up the daemon for a second at each attempt; it tries again by itself.
      if (!log.writable) throw unwritable();
      log.append({ ...entryOf(call, 'intent'), input: call.rawInput, ...parentOf(call) });
      call.intended = true;
      // A program can do nothing but call; what it calls is written with all that came before.
      if (!call.toolset.get(call.name)?.tool.isolated) log.flush();
    }
    return next(call);
  };

const mayChange = ({ toolset, name, options }: Call): boolean => {
  const tool = toolset.get(name)?.tool;
  return tool !== undefined && tool.tier !== 'read_only' && options.preview !== true;
};

/** A preview starts nothing, and is refused only by a decision. */
const isPreviewed = ({ options, decision }: Call): boolean =>
  options.preview === true && decision !== undefined && decision !== 'deny';

const unwritable = () => new ToolError('STORE_FAILED', 'the audit log can not be written at the moment');

function warn(call: Call): void {
  call.warnings.push('the audit log could not be written; this call may not be in it');
}

function resourcesOf(
  usage: NonNullable<Outcome['usage']>,
  error: ToolError | undefined,
): NonNullable<AuditEntry['resources']> {
  const { cpuMs, peakBytes, outputBytes, processes, enforcedBy } = usage;
  const verdict = error ? verdictOf(error, usage.verdict) : usage.verdict;
  return {
    ...{ cpuMs, outputBytes, verdict, enforcedBy },
    ...(peakBytes !== undefined && { peakBytes }),
    ...(processes !== undefined && { processes }),
  };
}

/** Of a call that a program makes. */
const parentOf = ({ options: { parentCallId } }: Call): Pick<AuditEntry, 'detail'> =>
  parentCallId === undefined ? {} : { detail: { parentCallId } };

function detailOf({ costUsd, outcome: { redactions, denied, connected }, options }: Call): Pick<AuditEntry, 'detail'> {
  const { parentCallId } = options;
  const detail = {
    ...(parentCallId !== undefined && { parentCallId }),
    ...(costUsd !== undefined && { costUsd }),
    ...(redactions > 0 && { redactions }),
    ...(connected && { connected }),
    ...(denied && {
      denied: denied.map(({ kind, target, rule, layer, count }) => ({ kind, target, rule, layer, count })),
    }),
  };
  return Object.keys(detail).length === 0 ? {} : { detail };
}

function entryOf(call: Call, kind: AuditEntry['kind']): AuditEntry {
  const { id, sessionId, principal, decided, checked, decision, rule, name, toolset } = call;
  const effects = decided?.effects ?? checked?.effects;
  return {
    kind,
    sessionId,
    principal,
    callId: id,
    tool: toolset.get(name)?.tool.name ?? name,
    ...(effects && { effects }),
    ...(decision && { decision }),
    ...(rule !== undefined && { rule }),
  };
}
