/** What the page of a fleet's panel asks beside approvals, and the answers. The page imports the types. */
import * as z from 'zod';
import type { Heartbeat } from '../../../fleet/presence.ts';

export const orderParams = z.strictObject({
  order: z.enum(['pause', 'kill', 'resume', 'drain', 'undrain']),
  /** Names of nodes. */
  nodes: z.array(z.string().max(64)).min(1).max(1024),
});

export const answerParams = z.strictObject({
  approvalId: z.string().max(256),
  /** Digest of the question that the page shows. */
  digest: z.string().max(64),
  decision: z.enum(['approve', 'deny']),
  feedback: z.string().max(4096).optional(),
});

export interface FleetNode {
  readonly name: string;
  readonly labels: readonly string[];
  /** Undefined if it is not heard. */
  readonly beat: Heartbeat | undefined;
}

/** What a node did of an order, or why it did not. */
export interface Told {
  readonly node: string;
  readonly done?: string;
  readonly problem?: string;
}

export interface FleetAnswers {
  readonly 'fleet.nodes': {
    readonly nodes: readonly FleetNode[];
    /** Why questions of nodes are not shown, by their names. */
    readonly problems: Readonly<Record<string, string>>;
  };
  readonly 'fleet.order': { readonly told: readonly Told[] };
}

export type FleetMethod = keyof FleetAnswers;
export type OrderParams = z.infer<typeof orderParams>;
