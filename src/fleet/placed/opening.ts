/** How a gateway opens a session on a node: what it asks, what the node answers, and what each signs. */
import * as z from 'zod';
import { memberName } from '../roster.ts';

const sessionKey = z.string().regex(/^[A-Za-z0-9_-]{43}$/);

export const opening = z.strictObject({
  gateway: memberName,
  node: memberName,
  /** Names the session on the bus. */
  session: z.string().regex(/^[0-9a-f]{32}$/),
  key: sessionKey,
  /** Milliseconds since the epoch. */
  atMs: z.int().min(0),
  /** Absolute path on the node; its daemon's first workspace when absent. */
  workspace: z.string().max(4096).optional(),
});
export type Opening = z.infer<typeof opening>;

export const signedOpening = z.strictObject({ opening, signature: z.string().max(128) });

export const openingAnswer = z.union([
  z.strictObject({ key: sessionKey, signature: z.string().max(128) }),
  z.strictObject({ refused: z.string().max(1024) }),
]);
export type OpeningAnswer = z.infer<typeof openingAnswer>;

/** The text that the gateway signs, and with the node's key the one that both keys are made of. */
export const transcriptOf = (fleet: string, asked: Opening, nodeKey = ''): string =>
  `ringfence fleet session 1\n${JSON.stringify([fleet, asked.gateway, asked.node, asked.session, asked.key, asked.atMs, asked.workspace ?? null, nodeKey])}`;

/** How old or how far ahead an opening may be. */
export const OPENING_MS = 60_000;
/** Time between two signs of life of a gateway. */
export const ALIVE_MS = 1_000;
