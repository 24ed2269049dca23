/** Which nodes are there, by their heartbeats alone: the server of the bus does not notice a stopped or unplugged one. */
import * as z from 'zod';

/** Time between two heartbeats. */
export const HEARTBEAT_MS = 500;
/** Silence after which a node gets no new sessions: three missed heartbeats. */
export const SUSPECTED_MS = 1_500;
/** Silence after which a node counts as lost, and the outcome of its calls as unknown. */
export const LOST_MS = 2_900;

/** Mirrors that a heartbeat names, the most recently used ones. */
export const WARM_MAX = 32;
/** Characters in which a node says why it takes no sessions. */
export const OBSTACLE_CHARS = 512;

const count = z.int().min(0);
export const heartbeat = z.strictObject({
  /** Made anew at each start of the node's link. */
  epoch: z.string().max(64),
  version: z.string().max(64),
  /** Version of the policy that decides calls there. */
  policy: z.string().max(128),
  sessions: count,
  running: count,
  queued: count,
  /** Questions that wait for a person. */
  questions: count,
  paused: z.boolean(),
  draining: z.boolean(),
  /** Why this node takes no sessions, if its policy is not the one that the operator requires. */
  obstacle: z.string().max(OBSTACLE_CHARS).optional(),
  /** Load of the machine in a minute, by processor. */
  load: z.number().min(0),
  freeMemory: count,
  /** Hashes of the repositories that the node has a mirror of. */
  warm: z
    .array(z.string().regex(/^[0-9a-f]{32}$/))
    .max(WARM_MAX)
    .optional(),
});
export type Heartbeat = z.infer<typeof heartbeat>;

export type PresenceState = 'here' | 'suspected' | 'lost';

export const presenceAt = (heardAtMs: number, nowMs: number): PresenceState => {
  const silentMs = nowMs - heardAtMs;
  if (silentMs < SUSPECTED_MS) return 'here';
  return silentMs < LOST_MS ? 'suspected' : 'lost';
};

export interface NodePresence {
  readonly node: string;
  readonly heardAtMs: number;
  readonly beat: Heartbeat;
}

/** The last heartbeat of each node, of at most `max` nodes. */
export class Presence {
  readonly #nodes = new Map<string, NodePresence>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** Notes a heartbeat; drops one that is none. */
  hear(node: string, given: unknown, nowMs: number): void {
    const parsed = heartbeat.safeParse(given);
    if (!parsed.success || (!this.#nodes.has(node) && this.#nodes.size >= this.#max)) return;
    this.#nodes.set(node, { node, heardAtMs: nowMs, beat: parsed.data });
  }

  get all(): readonly NodePresence[] {
    return [...this.#nodes.values()];
  }
}
