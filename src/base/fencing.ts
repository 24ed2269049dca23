/**
 * Fencing: whether a call of the fleet may start on this node now. A node that was stopped, cut off or replaced must not
 * start what somebody else may have started since. Architecture invariant: pure; the simulator of the tests runs it.
 *
 * A node owns a workspace while it holds its lease in the store of the bus, which forgets a lease that nobody renews for
 * LEASE_MS. The node counts from the moment at which it *asked* for the renewal, and stops START_WITHIN_MS later, so that
 * it stops a second before anybody else can own the workspace.
 */

/** Time after which the store forgets a lease that was not renewed. */
export const LEASE_MS = 3_000;
/** Time between two renewals. */
export const RENEW_MS = 1_000;
/** Age of the last confirmed renewal up to which a call may start. */
export const START_WITHIN_MS = 2_000;

/** A lease as its holder knows it. */
export interface HeldLease {
  /** Names one ownership: the revision at which the store created the lease. */
  readonly epoch: number;
  /** When the last confirmed renewal was asked for, by a clock that goes on while the machine sleeps. */
  readonly confirmedAtMs: number;
}

/** What a call brings with it. */
export interface CallFence {
  /** The ownership under which its session was opened. */
  readonly epoch: number;
  /** When nobody waits for the call any more: its gateway was last heard LOST_MS before. By the node's own clock. */
  readonly notAfterMs: number;
}

/** The lease behind a renewal that the store confirmed, which was asked for at `askedAtMs`. Answers may overtake each other. */
export const confirmed = (lease: HeldLease, askedAtMs: number): HeldLease => ({
  ...lease,
  confirmedAtMs: Math.max(lease.confirmedAtMs, askedAtMs),
});

/** Why a call may not start; undefined if it may. The call has then not begun, and nothing was done. */
export function whyNotStart(lease: HeldLease | undefined, call: CallFence, nowMs: number): string | undefined {
  if (!lease) return 'this node does not own the workspace any more';
  if (lease.epoch !== call.epoch)
    return `the session was opened under ownership ${call.epoch}, and the node holds ${lease.epoch}`;
  const ageMs = nowMs - lease.confirmedAtMs;
  if (ageMs >= START_WITHIN_MS)
    return `the ownership was confirmed ${Math.round(ageMs)} ms ago; at most ${START_WITHIN_MS} ms may pass`;
  if (nowMs >= call.notAfterMs) return 'the gateway of the session was not heard any more';
  return undefined;
}

/** What became of a call that was sent to a node that is lost: nobody knows, unless it certainly never reached the node. */
export const outcomeOnLoss = (reachedNode: boolean): 'unknown' | 'none' => (reachedNode ? 'unknown' : 'none');
