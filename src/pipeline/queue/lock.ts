/** Makes calls with conflicting effects wait for each other, in the order of their arrival. */

import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { locksOf } from '../../policy/schema.ts';
import { runsBy } from '../../tools/runs.ts';
import { type ClearedCall, outcomeOf, type Stage } from '../stage.ts';
import { type LockRequest, LockTable } from './lock-table.ts';

/**
 * Holds the call's locks while it runs and, if it was cut off, until its changes are rolled back. A write waits for
 * all writes and for its own session's reads of the same paths; a read waits for its own session's writes. Commands
 * lock what the policy says (`tiers.execute.locks`). Throws QUEUE_FULL when too many paths are waited for.
 */
export const lock = (limits: Limits): Stage<ClearedCall> => {
  const tables = new Map<string, LockTable>();
  return (next) => async (call) => {
    const wanted = wantedBy(call);
    if (wanted.reads.length + wanted.writes.length === 0) return next(call);
    const table = tables.get(call.root) ?? new LockTable();
    tables.set(call.root, table);
    assertRoom(table, wanted.owner, limits);
    const release = await table.acquire(wanted, call.controller.signal);
    const outcome = await outcomeOf(next, call);
    if (outcome.settling) void outcome.settling.then(release);
    else release();
    return outcome;
  };
};

function assertRoom(table: LockTable, session: string, limits: Limits): void {
  const full = (waiting: number, whose: string, most: number) =>
    new ToolError(
      'QUEUE_FULL',
      `${whose} wait for locks on ${waiting} paths that other calls hold; at most ${most} are allowed`,
      { details: { retryAfterMs: 100 } },
    );
  const own = table.waitingOf(session);
  const { sessionLockWaitingPathsMax: ownMax, lockWaitingPathsMax: allMax } = limits;
  if (own >= ownMax) throw full(own, 'calls of this session', ownMax);
  const { waiting } = table;
  if (waiting >= allMax) throw full(waiting, 'calls', allMax);
}

function wantedBy(call: ClearedCall): LockRequest {
  const { effects, tool } = call.checked;
  const owner = call.sessionId;
  // Programs and sub-agents take no locks: the calls that they make take theirs, and would wait for these for ever.
  if (runsBy(tool, 'isolates') || runsBy(tool, 'agents')) return { reads: [], writes: [], owner };
  const locks = call.question.command ? locksOf(call.policy) : 'paths';
  if (locks === 'none') return { reads: [], writes: [], owner };
  if (locks === 'workspace') return { reads: [], writes: [''], owner };
  const all = [...effects, ...(call.question.command?.redirects ?? [])].filter((it) => it.target !== '');
  const writes = all.filter(({ kind }) => kind === 'write' || kind === 'delete').map(({ target }) => lockPath(target));
  const reads = all.filter(({ kind }) => kind === 'read').map(({ target }) => lockPath(target));
  return { owner, writes: unique(writes), reads: unique(reads) };
}

/** The path to lock; for a glob, the folder before its first wildcard. */
function lockPath(target: string): string {
  const fixed = target.split('/').filter((it) => it !== '' && it !== '.');
  const wild = fixed.findIndex((it) => /[*?[{]/.test(it));
  return (wild < 0 ? fixed : fixed.slice(0, wild)).slice(0, LOCK_DEPTH_MAX).join('/');
}

/** The deepest path that is locked, in names; a deeper path is locked by its folder at this depth. */
const LOCK_DEPTH_MAX = 64;

const unique = (paths: readonly string[]): string[] => [...new Set(paths)];
