/** Drains a daemon that hands over: running calls finish, and clients take everything else to the new daemon. */
import type { CallRecord } from '../../base/call.ts';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { type Powers, pause } from '../../base/powers.ts';
import type { Batches } from '../batches.ts';
import type { DurableCalls } from '../durable-calls.ts';
import type { Sessions } from '../sessions.ts';

/** The reason in `session.closing` and in `movedOn`. */
export const UPGRADE = 'upgrade';

/** Refuses a request before anything was done; the client repeats it at the new daemon, on the same socket. */
export const movedOn = (): RpcError =>
  new RpcError('OVERLOADED', 'the daemon hands over to a new one; connect again and repeat the request', {
    reason: UPGRADE,
    begun: false,
  });

/** Refuses a call that has not begun. */
export const movedOnCall = (): ToolError =>
  new ToolError('SHUTTING_DOWN', 'the daemon hands over to a new one before this call has begun', {
    suggestion: 'Make the same call again.',
    details: { reason: UPGRADE, begun: false },
  });

export interface HandOverOptions {
  /** Aborting it ends the drain at once. */
  readonly hurry: AbortSignal;
  /** Accepts no further connections, and tells clients of other front ends to go over. */
  goOver(): void;
  /** Number of clients of other front ends that go over by themselves, and have not yet. */
  stayers(): number;
}

export interface HandOverParts {
  readonly sessions: Sessions;
  readonly durable: DurableCalls;
  readonly batches: Batches;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Aborting the signal ends the drain at once. */
  readonly hurry: AbortSignal;
  /** Number of open connections. */
  connections(): number;
  /** Accepts no further connections, and refuses what is new with `movedOn` from then on. */
  refuseNew(): void;
}

const LOOK_MS = 10;

/**
 * Resolves when no call runs that has begun, or after `drainMs`. The calls that run at the beginning may be long ones:
 * for up to half of that time the daemon goes on as usual until they have ended. Only then do new calls wait for the
 * new daemon.
 */
export async function handOver(parts: HandOverParts, drainMs: number): Promise<void> {
  const { powers, limits, hurry, sessions } = parts;
  const start = powers.monotonicMs();
  const waitUntil = async (isSo: () => boolean, withinMs: number) => {
    const end = powers.monotonicMs() + withinMs;
    while (!isSo() && !hurry.aborted && powers.monotonicMs() < end) await pause(LOOK_MS, powers);
  };
  const first = new Set(running(parts));
  await waitUntil(() => !running(parts).some((it) => first.has(it)), drainMs / 2);
  // The daemon is stopped, not replaced: no other process gets its sockets.
  if (hurry.aborted) return;
  parts.refuseNew();
  powers.log.info({}, 'clients go over to the new daemon');
  sessions.moveOn(UPGRADE);
  await waitUntil(() => isDone(parts), start + drainMs - powers.monotonicMs());
  for (const { session } of sessions.all) session.endBlocked(movedOnCall());
  await waitUntil(() => parts.connections() === 0, limits.upgradeLeaveMs);
}

function open({ sessions, durable }: HandOverParts): CallRecord[] {
  const calls = [...sessions.all.flatMap(({ session }) => session.underWay), ...durable.underWay];
  return calls.map(({ record }) => record);
}

/** Ignores calls that wait for a person: they have not begun, and their questions stay open. */
const isBlocked = ({ state }: CallRecord): boolean => state.status === 'blocked-on-user';

const running = (parts: HandOverParts): CallRecord[] => open(parts).filter((it) => !isBlocked(it));

/** Counts batches too, since a batch has no running call between two of its calls. */
function isDone(parts: HandOverParts): boolean {
  const calls = open(parts);
  return calls.every(isBlocked) && (parts.batches.count === 0 || calls.length > 0);
}
