/** Runs a command, and keeps what it changed for its undo, with the help of the write host of its workspace. */
import type { HostKey, Hosts } from '../../hosts/hosts.ts';
import type { JobUsage } from '../../hosts/job.ts';
import type { RunResult } from '../../hosts/runs.ts';
import type { CommandReport } from '../../hosts/shadow/journal-report.ts';
import type { NotKept, ShadowedRun } from '../../hosts/shadow/shadow-line.ts';
import type { Limits } from '../../limits.ts';
import type { UndoJournal } from '../../store/undo-journal.ts';
import type { ClearedCall } from '../stage.ts';
import type { Job } from './journalled.ts';

export interface ShadowParts {
  readonly hosts: Hosts;
  readonly undoJournal: UndoJournal;
  readonly limits: Limits;
}

export interface ShadowedJob extends Job {
  /** The write host of the same workspace and rules. */
  readonly writer: HostKey;
  /** Whether no other call ran in the workspace meanwhile, whose changes would be taken for the command's. */
  isAlone(): boolean;
}

/** Runs a job like `hosts.run`; its usage then says how far the call can be undone. */
export async function runShadowed(call: ClearedCall, job: ShadowedJob, parts: ShadowParts): Promise<RunResult> {
  const { place, request, options, writer, isAlone } = job;
  const { hosts, undoJournal, limits } = parts;
  if (undoJournal.spoolOf(place.workspace) === undefined) return hosts.run(place, request, options);
  const key = undoJournal.keyOf({ sessionId: call.sessionId, callId: call.id });
  let run: ShadowedRun | NotKept = 'not-ready';
  const beforeStart = async () => {
    // Before the last checks, after which the command starts at once.
    run = await hosts.beginShadow(writer);
    await options.beforeStart?.();
  };
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
  if (typeof report === 'string') {
    const changed = usage.filesUnknown ? [{ path: '.' }] : (usage.filesChanged ?? []);
    const missing = changed.slice(0, limits.undoMissingMax).map(({ path }) => ({ path, why: report }));
    if (missing.length > 0) usage.undoMissing = missing;
    const total = usage.filesChangedTotal ?? changed.length;
    if (total > missing.length) usage.undoMissingTotal = total;
    return;
  }
  const { missing, total } = report;
  if (missing.length > 0) usage.undoMissing = missing;
  if (total > missing.length) usage.undoMissingTotal = total;
  if (report.undo === 'none') return;
  undoJournal.begin({ ...call, callId: call.id });
  usage.undo = undoJournal.end(key, report);
}
