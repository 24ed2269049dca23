/** Jobs that change files keep what they change; what one that was cut off had done is taken back. */
import { ToolError } from '../errors.ts';
import type { Hosts, Place } from '../hosts/hosts.ts';
import { isJournalReport } from '../hosts/job.ts';
import type { Ran, RunOptions, RunRequest } from '../hosts/runs.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { UndoJournal } from '../store/undo-journal.ts';
import { type Call, checkedOf } from './stage.ts';

export interface JournalParts {
  readonly hosts: Hosts;
  readonly undoJournal: UndoJournal;
  readonly limits: Limits;
  readonly powers: Powers;
}

export interface Job {
  readonly place: Place;
  readonly request: RunRequest;
  readonly options: RunOptions;
}

/** As `hosts.run`. When its host died, everything is as it was before the call, as far as that could be kept. */
export async function runJournalled(call: Call, { place, request, options }: Job, parts: JournalParts): Promise<Ran> {
  const { hosts, undoJournal, limits } = parts;
  const folder = isJournalled(call, place) ? undoJournal.spoolOf(place.workspace) : undefined;
  if (folder === undefined) return hosts.run(place, request, options);
  await takeBack(place, folder, parts);
  const key = undoJournal.keyOf({ sessionId: call.sessionId, callId: call.id });
  let hasBegun = false;
  const beforeStart = async () => {
    await options.beforeStart?.();
    undoJournal.begin({ ...call, callId: call.id });
    hasBegun = true;
  };
  try {
    const ran = await hosts.run(place, { ...request, journal: { folder, key } }, { ...options, beforeStart });
    const { usage } = ran.result;
    usage.undo = undoJournal.end(
      key,
      isJournalReport(usage.journal, limits.journalPathsMax) ? usage.journal : undefined,
    );
    return ran;
  } catch (error) {
    if (!hasBegun) throw error;
    undoJournal.cut(place.workspace, key);
    throw (await isTakenBack(key, { place, folder, parts })) ? withRollBack(error) : error;
  }
}

/** What runs programs, or keeps something, changes files in ways that nobody sees. */
function isJournalled(call: Call, { tier }: Place): boolean {
  return tier === 'write' && checkedOf(call).effects.some(({ kind }) => kind === 'write' || kind === 'delete');
}

/**
 * Takes back what calls of this workspace did that were cut off. Gives those that could not be, and never will be: the policy
 * forbids it, or their journals are not whole. Throws what keeps it from having a host.
 */
async function takeBack(place: Place, folder: string, parts: JournalParts): Promise<Set<string>> {
  const { undoJournal } = parts;
  const left = new Set<string>();
  // Others may be cut off meanwhile.
  while (undoJournal.cutOff(place.workspace).length > 0)
    for (const it of await undoJournal.alone(place.workspace, () => rollBack(place, folder, parts))) left.add(it);
  return left;
}

async function rollBack(place: Place, folder: string, { hosts, undoJournal, limits, powers }: JournalParts) {
  const keys = undoJournal.cutOff(place.workspace);
  // Of the daemon, and not of any call: whoever waits for it may go.
  const controller = new AbortController();
  const timer = powers.after(limits.callTimeoutMs.write, () =>
    controller.abort(new ToolError('TIMEOUT', 'calls that were cut off could not be taken back in time')),
  );
  try {
    const request = { tool: 'calls_undo', input: {}, rollBack: { folder, keys } };
    const { result } = await hosts.run(place, request, { signal: controller.signal });
    const done = result.ok ? (result.data as { done?: unknown }).done : [];
    const left = keys.filter((it) => !(Array.isArray(done) && done.includes(it)));
    powers.log.warn({ workspace: place.workspace, calls: keys.length, left }, 'calls that were cut off are taken back');
    for (const key of keys) undoJournal.drop(key);
    return left;
  } finally {
    timer.cancel();
  }
}

async function isTakenBack(
  key: string,
  { place, folder, parts }: { place: Place; folder: string; parts: JournalParts },
): Promise<boolean> {
  try {
    return !(await takeBack(place, folder, parts)).has(key);
  } catch (error) {
    // No host can be had: the next call of this workspace, or the next daemon, does it.
    parts.powers.log.error({ error, key }, 'a call that was cut off is not taken back yet');
    return false;
  }
}

function withRollBack(error: unknown): unknown {
  if (!(error instanceof ToolError) || error.code !== 'HOST_CRASHED') return error;
  const { code, message, extras } = error;
  return new ToolError(code, message, {
    ...extras,
    suggestion: 'What it had changed is taken back; it can be called again.',
    details: { ...extras.details, rolledBack: true },
  });
}
