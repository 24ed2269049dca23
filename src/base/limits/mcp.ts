/** Bounds of the MCP server. */
import { KiB, MiB } from './units.ts';

export const mcpLimits = {
  /** Connections to mcp.sock; each has its own MCP server and session, less than 1 MiB together. */
  mcpConnectionsMax: 128,
  /** Longest message in both directions; clients close their connection for a longer one. */
  mcpMessageBytesMax: 10 * MiB,
  /** Unanswered requests of one connection; further ones get OVERLOADED. */
  mcpRequestsMax: 256,
  /** Time after which a connection that has sent nothing is closed, so that silent ones can't use up mcpConnectionsMax. */
  mcpOpenMs: 60_000,
  /** Time from the end of a client's input to the end of its connection, for answers still to come. */
  mcpEndGraceMs: 1_000,
  /** Bytes of text in one result, about 25 000 tokens, at which clients cut; the complete text is a resource. */
  mcpTextBytesMax: 100_000,
  /** Base64 characters of pictures, sounds and other bytes in one result; with its text they fit into one message. */
  mcpMediaBytesMax: 4 * MiB,
  /** Bytes of an external provider's `structuredContent` that are passed on in addition to its text. */
  mcpStructuredBytesMax: 16 * KiB,
  /** Time for which a call waits for a person before its result says so; most clients give up after 60 s. */
  mcpApprovalWaitMs: 45_000,
  /** Interval of progress notifications for a call without output. */
  mcpProgressMs: 5_000,
  /** Shortest interval of progress notifications for a call with output. */
  mcpOutputProgressMs: 250,
  /** Time for a client to name its roots. */
  mcpRootsMs: 2_000,
  /** Idle time after which a session of clients without a connection (2026-07-28, HTTP) is ended. */
  mcpSessionIdleMs: 600_000,
  /**
   * Sessions of one principal without a connection; beyond it the one unused for longest is ended, or the request gets OVERLOADED if all
   * are in use.
   */
  mcpSessionsPerPrincipalMax: 16,
  /** Sessions without a connection over all principals. */
  mcpSessionsMax: 64,
};
