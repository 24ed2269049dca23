/** How a gateway opens a session on a node: what it asks, what the node answers, and what each signs. */
import * as z from 'zod';
import { memberName } from '../roster.ts';

const sessionKey = z.string().regex(/^[A-Za-z0-9_-]{43}$/);

/** What a client of MCP chose: these only narrow its session. */
const mcpChoice = z.strictObject({
  tools: z.array(z.string().max(128)).max(256),
  readOnly: z.boolean(),
  policy: z.string().max(128).optional(),
  mode: z.string().max(64).optional(),
});
export type McpChoice = z.infer<typeof mcpChoice>;

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
  /** Set for a client of MCP. */
  mcp: mcpChoice.optional(),
});
export type Opening = z.infer<typeof opening>;

export const signedOpening = z.strictObject({ opening, signature: z.string().max(128) });

export const openingAnswer = z.union([
  z.strictObject({ key: sessionKey, signature: z.string().max(128) }),
  z.strictObject({ refused: z.string().max(1024) }),
]);
export type OpeningAnswer = z.infer<typeof openingAnswer>;

/** The text that the gateway signs, and with the node's key the one that both keys are made of. */
export function transcriptOf(fleet: string, asked: Opening, nodeKey = ''): string {
  const { gateway, node, session, key, atMs, workspace = null, mcp } = asked;
  const choice = mcp ? [[mcp.tools, mcp.readOnly, mcp.policy ?? null, mcp.mode ?? null]] : [];
  return `ringfence fleet session 1\n${JSON.stringify([fleet, gateway, node, session, key, atMs, workspace, nodeKey, ...choice])}`;
}

/** How old or how far ahead an opening may be. */
export const OPENING_MS = 60_000;
/** Time between two signs of life of a gateway. */
export const ALIVE_MS = 1_000;
