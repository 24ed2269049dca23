/** Bounds of external tool providers: how much of a foreign server's messages is accepted. */
import { KiB, MiB } from './units.ts';

export const providerLimits = {
  /** Time from the start of a provider's process to its list of tools; a package runner that downloads first needs more than a server. */
  providerStartMs: 30_000,
  /** Delay before the first restart of a provider; it doubles with each further one, and up to a half is taken off at random. */
  providerBackoffMs: 500,
  /** Longest delay before a restart, so that a repaired server is found. */
  providerBackoffMsMax: 60_000,
  /** Time for which a provider must have been ready for its next end to count as the first. */
  providerSteadyMs: 60_000,
  /** Health checks in a row that a server that calls use may leave unanswered; then it is started anew. */
  providerChecksMax: 3,
  /** Longest message of a server; a larger one ends its connection before it is buffered completely. */
  providerMessageBytes: 10 * MiB,
  /** Messages of a server in one second; a server that sends more is ended. */
  providerMessagesPerSecond: 20_000,
  /** Tools of one server; a server with more is not used. */
  providerToolsMax: 256,
  /** Pages in which a server may list its tools. */
  providerPagesMax: 64,
  /**
   * Unanswered requests to one server that are remembered, so that a malformed answer fails its request; more than calls can run at once.
   */
  providerAwaitedMax: 1024,
  /** Characters of a server's description of a tool; the rest is cut, since models read all of it. */
  providerDescriptionChars: 4 * KiB,
  /** Largest JSON Schema of a tool, in bytes; a tool with a larger one is left out. */
  providerSchemaBytes: 32 * KiB,
  /** Deepest nesting of a tool's schema. */
  providerSchemaDepth: 24,
  /** Bytes of all tool definitions of one server as JSON, so that the stored data stays small. */
  providerListBytes: 2 * MiB,
  /** Shortest time between two lists of tools accepted from one server. */
  providerListMs: 250,
  /** Bytes of one call's input as JSON. */
  providerInputBytes: 4 * MiB,
  /** Shortest time between two progress notifications of one call that are passed on. */
  providerProgressMs: 100,
  /** Bytes of a server's stderr in one second that reach the log. */
  providerStderrBytes: 4 * KiB,
  /** Memory of a provider's whole process tree, in MiB, unless its configuration says less. */
  providerMemoryMb: 1024,
  /** Processes and threads of a provider. */
  providerTasksMax: 256,
  /** Interval at which a provider's memory is measured where no control group enforces it. */
  providerLookMs: 250,
};
