import { ToolError, toToolError } from '../errors.ts';
import type { Powers } from '../powers.ts';
import type { AuditEntry, AuditLog } from '../store/audit/log.ts';
import { gitConfigsOf } from './execute/git-configs.ts';
import type { Outcome } from './outcome.ts';
import type { Call, Stage } from './stage.ts';
import { verdictOf } from './verdict.ts';

/**
 * Writes a refusal or an outcome for each call to the audit log. While the log can't be written, calls that may
 * change something end with STORE_FAILED before anybody is asked about them; reading goes on, with a warning.
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
          // The entry of the intent holds the input already.
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
      // A call that never started has no outcome, even if it was allowed: it may be stale, cancelled or without a slot.
      end(call.outcome.started || isPreviewed(call) ? 'outcome' : 'refusal', error);
      throw error;
    }
  };

/**
 * Writes the intent of a call that may change something to disk before the call runs. Stands after the decision: an
 * intent may be large, and refused calls cost their caller nothing, so that they could fill the log.
 */
export const intent =
  (log: AuditLog): Stage =>
  (next) =>
  async (call) => {
    if (mayChange(call)) {
      // Each attempt to write to a broken log may block the daemon for a second; the log tries again by itself.
      if (!log.writable) throw unwritable();
      log.append({ ...entryOf(call, 'intent'), input: call.rawInput, ...parentOf(call) });
      call.intended = true;
      // A program only makes calls; the intents of those calls flush this entry, too.
      if (!call.toolset.get(call.name)?.tool.isolated) log.flush();
    }
    return next(call);
  };

const mayChange = ({ toolset, name, options }: Call): boolean => {
  const tool = toolset.get(name)?.tool;
  return tool !== undefined && tool.tier !== 'read_only' && options.preview !== true;
};

/** Whether the call is a preview that was not denied. A preview starts nothing, but has an outcome. */
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

/** The call id of the program that made the call, for the record. */
const parentOf = ({ options: { parentCallId } }: Call): Pick<AuditEntry, 'detail'> =>
  parentCallId === undefined ? {} : { detail: { parentCallId } };

function detailOf({ costUsd, outcome, options }: Call): Pick<AuditEntry, 'detail'> {
  const { redactions, denied, connected, usage } = outcome;
  const { parentCallId } = options;
  const gitConfigs = usage ? gitConfigsOf(usage) : [];
  const detail = {
    ...(parentCallId !== undefined && { parentCallId }),
    ...(costUsd !== undefined && { costUsd }),
    ...(redactions > 0 && { redactions }),
    ...(connected && { connected }),
    ...(gitConfigs.length > 0 && { gitConfigs }),
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
