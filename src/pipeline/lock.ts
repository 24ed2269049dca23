/** Calls whose effects meet wait for each other, in the order of their arrival. */
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { locksOf } from '../policy/schema.ts';
import { LockTable, type Wanted } from './lock-table.ts';
import { type Call, checkedOf, type Stage } from './stage.ts';

/**
 * Takes the call's locks and gives them back when it is over. A write waits for writes of anybody and for its own session's
 * reads of the same paths, and the other way round; commands lock what the policy says (`tiers.execute.locks`). Ends a call
 * with QUEUE_FULL when too many wait.
 */
export const lock = (limits: Limits): Stage => {
  const tables = new Map<string, LockTable>();
  return (next) => async (call) => {
    const wanted = wantedBy(call);
    if (wanted.reads.length + wanted.writes.length === 0) return next(call);
    const table = tables.get(call.root) ?? new LockTable();
    tables.set(call.root, table);
    assertRoom(table, wanted.owner, limits);
    const release = await table.acquire(wanted, call.controller.signal);
    try {
      return await next(call);
    } finally {
      release();
    }
  };
};

/** Throws QUEUE_FULL. */
function assertRoom(table: LockTable, session: string, limits: Limits): void {
  const full = (waiting: number, whose: string, most: number) =>
    new ToolError(
      'QUEUE_FULL',
      `${waiting} paths are waited for by ${whose} that other calls hold up; at most ${most} may be`,
      { details: { retryAfterMs: 100 } },
    );
  const own = table.waitingOf(session);
  const { sessionLockWaitingPathsMax: ownMax, lockWaitingPathsMax: allMax } = limits;
  if (own >= ownMax) throw full(own, 'calls of this session', ownMax);
  const { waiting } = table;
  if (waiting >= allMax) throw full(waiting, 'calls', allMax);
}

function wantedBy(call: Call): Wanted {
  const { effects, tool } = checkedOf(call);
  const owner = call.sessionId;
  // What it calls takes its own, and would wait for ever for those of the call that it is made for.
  if (tool.isolated) return { reads: [], writes: [], owner };
  const locks = call.question?.command ? locksOf(call.policy) : 'paths';
  if (locks === 'none') return { reads: [], writes: [], owner };
  if (locks === 'workspace') return { reads: [], writes: [''], owner };
  const all = [...effects, ...(call.question?.command?.redirects ?? [])].filter((it) => it.target !== '');
  const writes = all.filter(({ kind }) => kind === 'write' || kind === 'delete').map(({ target }) => lockPath(target));
  const reads = all.filter(({ kind }) => kind === 'read').map(({ target }) => lockPath(target));
  return { owner, writes: unique(writes), reads: unique(reads) };
}

/** Of a glob, the folder in which it looks: what stands before its first wildcard. */
function lockPath(target: string): string {
  const fixed = target.split('/').filter((it) => it !== '' && it !== '.');
  const wild = fixed.findIndex((it) => /[*?[{]/.test(it));
  return (wild < 0 ? fixed : fixed.slice(0, wild)).slice(0, LOCK_DEPTH_MAX).join('/');
}

/** Deeper paths are locked by the folder that they lie in at this depth. */
const LOCK_DEPTH_MAX = 64;

const unique = (paths: readonly string[]): string[] => [...new Set(paths)];
