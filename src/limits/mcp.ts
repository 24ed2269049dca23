/** Bounds of the MCP face. */
import * as z from 'zod';
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const mcpLimits = {
  /** Connections to mcp.sock at once; each is an MCP server and a session of its own, less than 1 MiB together. */
  mcpConnectionsMax: count().default(128),
  /** Longest message, both ways: clients end their connection over a longer one. */
  mcpMessageBytesMax: bytes()
    .max(10 * MiB)
    .default(10 * MiB),
  /** Requests of one connection that may wait for an answer; further ones get OVERLOADED. */
  mcpRequestsMax: count().default(256),
  /** A connection that has sent nothing by then is ended, so that silent ones can't use up mcpConnectionsMax. */
  mcpOpenMs: ms().default(60_000),
  /** From the end of what a client sends to the end of its connection, for answers that are under way. */
  mcpEndGraceMs: ms().default(1_000),
  /** Text of one result, about 25 000 tokens, which is where clients cut; the whole of it is a resource. */
  mcpTextBytesMax: bytes().default(100_000),
  /** Pictures, sounds and other bytes of one result, in base64; with its text it stays within one message. */
  mcpMediaBytesMax: bytes()
    .max(8 * MiB)
    .default(4 * MiB),
  /** `structuredContent` of an external provider's tool that is passed on beside its text. */
  mcpStructuredBytesMax: bytes().default(16 * KiB),
  /** How long a call waits for a person before its result says so; most clients give up after 60 s. */
  mcpApprovalWaitMs: z.int().min(0).default(45_000),
  /** Between two notices of progress of a call that says nothing. */
  mcpProgressMs: ms().default(5_000),
  /** The same of one that has output. */
  mcpOutputProgressMs: ms().default(250),
  /** How long a client may take to name its roots. */
  mcpRootsMs: ms().default(2_000),
  /** A session of clients that keep no connection (2026-07-28, HTTP) is ended when nobody used it for so long. */
  mcpSessionIdleMs: ms().default(600_000),
  /** Such sessions of one principal; beyond it the one that was unused for longest ends, and in use all the time: OVERLOADED. */
  mcpSessionsPerPrincipalMax: count().default(16),
  /** The same over all principals. */
  mcpSessionsMax: count().default(64),
};
