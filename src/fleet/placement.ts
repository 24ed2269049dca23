/**
 * Placement: which node gets a session. Architecture invariant: pure; the simulator of the tests runs it. Several gateways
 * place at once, by heartbeats that are half a second old: each looks at two nodes that the key of the session picks, and
 * takes the freer one, so that they don't all run to the same node.
 */
import type { PresenceState } from './presence.ts';

/** A node as a gateway knows it. */
export interface Candidate {
  readonly name: string;
  readonly labels: readonly string[];
  readonly presence: PresenceState;
  /** Whether it follows the policy that the roster names. */
  readonly hasPolicy: boolean;
  readonly draining: boolean;
  /** Why it takes no sessions, by its own words. */
  readonly obstacle?: string | undefined;
  readonly paused: boolean;
  readonly sessions: number;
  /** Load of the machine by processor. */
  readonly load: number;
  readonly freeMemory: number;
  /** Hashes of the repositories that the node has a mirror of. */
  readonly warm?: readonly string[] | undefined;
}

/** A session that is to be placed. */
export interface Wanted {
  /** Picks the nodes that are compared; the same for the same workspace. */
  readonly key: string;
  /** Labels that the node must have. */
  readonly labels: readonly string[];
  /** The only node that will do, since the files are there. */
  readonly node?: string | undefined;
  /** Hash of the repository that the session works on. */
  readonly origin?: string | undefined;
}

export interface PlacementBounds {
  readonly sessionsMax: number;
  readonly freeMemoryMin: number;
}

export type Placed = { readonly node: string } | { readonly refused: string };

/** The node for a session, or why there is none. */
export function place(wanted: Wanted, candidates: readonly Candidate[], bounds: PlacementBounds): Placed {
  const asked = wanted.node === undefined ? candidates : candidates.filter((it) => it.name === wanted.node);
  const free = asked.filter((it) => obstacleTo(it, wanted, bounds) === undefined);
  const [cold, warm] = [
    freer(free, wanted.key),
    freer(
      free.filter((it) => isWarm(it, wanted)),
      wanted.key,
    ),
  ];
  // A fetch costs about as much as some sessions more, so that one repository does not fill one node.
  const chosen = warm && cold && busyness(warm) > busyness(cold) + WARM_WORTH ? cold : (warm ?? cold);
  if (chosen) return { node: chosen.name };
  if (asked.length === 0)
    return { refused: wanted.node === undefined ? 'no node is there' : `node ${wanted.node} is not there` };
  const told = asked.slice(0, TOLD).map((it) => `${it.name} ${obstacleTo(it, wanted, bounds)}`);
  return { refused: `no node will do: ${told.join(', ')}${asked.length > TOLD ? ', …' : ''}` };
}

/** Sessions by which a node with a mirror may be ahead of another one. */
const WARM_WORTH = 8;

const isWarm = ({ warm = [] }: Candidate, { origin }: Wanted): boolean => origin !== undefined && warm.includes(origin);

/** The freer of the two nodes that a key picks. */
function freer(nodes: readonly Candidate[], key: string): Candidate | undefined {
  const [first, second] = firstTwo(nodes, key);
  return first && second && busyness(second) < busyness(first) ? second : first;
}

/** Nodes of which a refusal says why they will not do. */
const TOLD = 3;

/** The two nodes that come first in the order that a key gives them. */
function firstTwo(nodes: readonly Candidate[], key: string): readonly Candidate[] {
  let [first, second]: (Candidate | undefined)[] = [];
  let [least, next] = [Infinity, Infinity];
  const ofKey = hashOf(key);
  for (const it of nodes) {
    const rank = mixed(hashOf(it.name, ofKey));
    if (rank < least) {
      [second, next] = [first, least];
      [first, least] = [it, rank];
    } else if (rank < next) [second, next] = [it, rank];
  }
  return [first, second].filter((it) => it !== undefined);
}

/** Why a node gets no session; undefined if it may. */
function obstacleTo(
  it: Candidate,
  { labels }: Wanted,
  { sessionsMax, freeMemoryMin }: PlacementBounds,
): string | undefined {
  if (it.presence !== 'here') return `is ${it.presence}`;
  if (!it.hasPolicy) return 'follows another policy';
  if (it.obstacle !== undefined) return it.obstacle;
  if (it.draining) return 'is draining';
  if (it.paused) return 'is paused';
  const missing = labels.find((label) => !it.labels.includes(label));
  if (missing !== undefined) return `has no label ${missing}`;
  if (it.sessions >= sessionsMax) return `has ${it.sessions} sessions; at most ${sessionsMax} are placed`;
  if (it.freeMemory < freeMemoryMin) return `has ${it.freeMemory} free bytes of memory; ${freeMemoryMin} are needed`;
  return undefined;
}

const busyness = ({ sessions, load }: Candidate): number => sessions + LOAD_WEIGHT * load;

/** One processor's worth of load weighs as much as this many sessions, most of which wait for their model. */
const LOAD_WEIGHT = 10;

/** FNV-1a of a text, going on from the hash of the text before it. */
function hashOf(text: string, before = 0x811c9dc5): number {
  let hash = before;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

/** The final mix of MurmurHash3, without which similar names get similar ranks. */
function mixed(given: number): number {
  let hash = Math.imul(given ^ (given >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
