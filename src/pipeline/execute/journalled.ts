/**
 * Runs jobs that change files with an undo journal; the changes of a job that was cut off are rolled back. What a command
 * changed is kept when it is over, by the write host of its workspace.
 */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { abortAfter, type Powers } from '../../base/powers.ts';
import type { HostKey, Hosts } from '../../hosts/hosts.ts';
import type { JobUsage } from '../../hosts/job.ts';
import type { RunOptions, RunRequest, RunResult } from '../../hosts/runs.ts';
import { type CommandReport, isJournalReport } from '../../hosts/shadow/journal-report.ts';
import type { NotKept, ShadowedRun } from '../../hosts/shadow/shadow-line.ts';
import { unlessAborted } from '../../hosts/shutdown.ts';
import type { UndoJournal } from '../../store/undo/undo-journal.ts';
import type { Attempt } from '../outcome.ts';
import type { ClearedCall } from '../stage.ts';

export interface JournalParts {
  readonly hosts: Hosts;
  readonly undoJournal: UndoJournal;
  readonly limits: Limits;
  readonly powers: Powers;
}

export interface Job {
  readonly place: HostKey;
  readonly request: RunRequest;
  readonly options: RunOptions;
  readonly attempt: Attempt;
}

/**
 * Runs a job like `hosts.run`. If its host dies, the files are rolled back to their state before the call, as far as
 * the journal has it. An aborted call does not wait for the roll-back: `attempt.settling` does.
 */
export async function runJournalled(
  call: ClearedCall,
  { place, request, options, attempt }: Job,
  parts: JournalParts,
): Promise<RunResult> {
  const { hosts, undoJournal, limits } = parts;
  if (!isJournalled(call, place)) return hosts.run(place, request, options);
  const folder = undoJournal.spoolOf(place.workspace);
  if (folder === undefined) return runUnkept({ place, request, options }, parts);
  await unlessAborted(takeBack(place, parts), options.signal);
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
    const takingBack = isTakenBack(key, place, parts);
    attempt.settling = takingBack;
    throw (await unlessAborted(takingBack, options.signal)) ? withRollBack(error) : error;
  }
}

/** Runs a job in a workspace of which nothing can be kept. */
async function runUnkept({ place, request, options }: Omit<Job, 'attempt'>, parts: JournalParts): Promise<RunResult> {
  const ran = await parts.hosts.run(place, request, options);
  noteNotKept(ran.result.usage, 'other-user', parts.limits);
  return ran;
}

/** Whether the call writes an undo journal. Programs and terminals change files unseen, so their calls have none. */
function isJournalled(call: ClearedCall, { tier }: HostKey): boolean {
  return tier === 'write' && call.checked.effects.some(({ kind }) => kind === 'write' || kind === 'delete');
}

/**
 * Rolls back the calls of this workspace that were cut off. Gives the keys of those that can never be rolled back:
 * the policy forbids it, or their journals are incomplete. Throws what keeps it from having a host.
 */
export async function takeBack(place: HostKey, parts: JournalParts): Promise<Set<string>> {
  const { undoJournal } = parts;
  const left = new Set<string>();
  const folder = undoJournal.spoolOf(place.workspace);
  if (folder === undefined) return left;
  // Other calls may be cut off meanwhile.
  while (undoJournal.cutOff(place.workspace).length > 0)
    for (const it of await undoJournal.runExclusively(place.workspace, () => rollBack(place, folder, parts)))
      left.add(it);
  return left;
}

async function rollBack(place: HostKey, folder: string, { hosts, undoJournal, limits, powers }: JournalParts) {
  const keys = undoJournal.cutOff(place.workspace);
  // A signal of its own: the roll-back goes on even if the call that waits for it is aborted.
  const late = new ToolError('TIMEOUT', 'interrupted calls could not be rolled back in time');
  using inTime = abortAfter(limits.callTimeoutMs.write, powers, late);
  const request = { rollBack: { folder, keys }, lifted: ['.'] };
  const { result } = await hosts.run(place, request, { signal: inTime.signal });
  const done = result.ok ? (result.data as { done?: unknown }).done : [];
  const left = keys.filter((it) => !(Array.isArray(done) && done.includes(it)));
  powers.log.warn({ workspace: place.workspace, calls: keys.length, left }, 'rolling back interrupted calls');
  for (const key of keys) undoJournal.drop(key);
  return left;
}

async function isTakenBack(key: string, place: HostKey, parts: JournalParts): Promise<boolean> {
  try {
    return !(await takeBack(place, parts)).has(key);
  } catch (error) {
    // No host is available: the next call of this workspace, or the next daemon, rolls the call back.
    parts.powers.log.error({ error, key }, 'an interrupted call is not rolled back yet');
    return false;
  }
}

function withRollBack(error: unknown): unknown {
  if (!(error instanceof ToolError) || error.code !== 'HOST_CRASHED') return error;
  const { code, message, extras } = error;
  return new ToolError(code, message, {
    ...extras,
    suggestion: 'Its changes were rolled back; you can call it again.',
    details: { ...extras.details, rolledBack: true },
  });
}

export interface ShadowedJob extends Job {
  /** The write host of the same workspace and rules. */
  readonly writer: HostKey;
  /** Whether no other call ran in the workspace meanwhile, whose changes would be taken for the command's. */
  isAlone(): boolean;
}

/** Runs a job like `hosts.run`; its usage then says how far the call can be undone. */
export async function runShadowed(call: ClearedCall, job: ShadowedJob, parts: JournalParts): Promise<RunResult> {
  const { place, request, options, writer, isAlone } = job;
  const { hosts, undoJournal, limits } = parts;
  if (undoJournal.spoolOf(place.workspace) === undefined) return runUnkept({ place, request, options }, parts);
  const key = undoJournal.keyOf({ sessionId: call.sessionId, callId: call.id });
  let run: ShadowedRun | NotKept = 'not-ready';
  const beforeStart = async () => {
    // Before the last checks, after which the command starts at once.
    run = await hosts.beginShadow(writer);
    await options.beforeStart?.();
  };
  // The write host starts and reads the workspace while the host of commands starts.
  void hosts.prepareShadow(writer, true);
  const end = (by: string | undefined) => (typeof run === 'string' ? Promise.resolve(run) : run.end(by));
  try {
    const ran = await hosts.run(place, request, { ...options, beforeStart });
    note(ran.result.usage, await end(isAlone() ? key : undefined), { call, key, undoJournal, limits });
    return ran;
  } catch (error) {
    void end(undefined);
    throw error;
  }
}

interface Noting {
  readonly call: ClearedCall;
  readonly key: string;
  readonly undoJournal: UndoJournal;
  readonly limits: Limits;
}

function note(
  usage: JobUsage,
  report: CommandReport | NotKept | undefined,
  { call, key, undoJournal, limits }: Noting,
): void {
  if (report === undefined) return;
  if (typeof report === 'string') return noteNotKept(usage, report, limits);
  const { missing, total, unnamed = [] } = report;
  addChanged(usage, unnamed, limits);
  if (missing.length > 0) usage.undoMissing = missing;
  if (total > missing.length) usage.undoMissingTotal = total;
  if (report.undo === 'none') return;
  undoJournal.begin({ ...call, callId: call.id });
  usage.undo = undoJournal.end(key, report);
}

function noteNotKept(usage: JobUsage, why: NotKept, { undoMissingMax }: Limits): void {
  const changed = usage.filesUnknown ? [{ path: '.' }] : (usage.filesChanged ?? []);
  const missing = changed.slice(0, undoMissingMax).map(({ path }) => ({ path, why }));
  if (missing.length > 0) usage.undoMissing = missing;
  const total = usage.filesChangedTotal ?? changed.length;
  if (total > missing.length) usage.undoMissingTotal = total;
}

/** Adds changed files to those that events told of. */
function addChanged(usage: JobUsage, paths: readonly string[], { filesChangedMax }: Limits): void {
  const told = usage.filesChanged ?? [];
  const others = paths.filter((it) => told.every(({ path }) => path !== it));
  if (others.length === 0) return;
  const total = (usage.filesChangedTotal ?? told.length) + others.length;
  usage.filesChanged = [...told, ...others.map((path) => ({ path, kind: 'modify' as const }))].slice(
    0,
    filesChangedMax,
  );
  if (total > usage.filesChanged.length) usage.filesChangedTotal = total;
}
