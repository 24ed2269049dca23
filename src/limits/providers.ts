/** Bounds of external tool providers: what a server that somebody else wrote may say, and how much of it is believed. */
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const providerLimits = {
  /** From the start of a provider's process to its list of tools; a package runner that fetches first takes longer than a server. */
  providerStartMs: ms().default(30_000),
  /** Wait before the first new start of a provider that ended; each further one doubles it, a random part of up to a half is taken off. */
  providerBackoffMs: ms().default(500),
  /** Longest wait before a new start, so that a server that is repaired is found. */
  providerBackoffMsMax: ms().default(60_000),
  /** How long a provider has to have been ready for its next end to count as the first. */
  providerSteadyMs: ms().default(60_000),
  /** Longest message of a server; one larger ends its connection before it is held whole. */
  providerMessageBytes: bytes().default(10 * MiB),
  /** Messages of a server in one second; a server that babbles faster is ended. */
  providerMessagesPerSecond: count().default(20_000),
  /** Tools of one server; with more, it is not used. */
  providerToolsMax: count().default(256),
  /** Characters of what a server says of a tool; the rest is cut, for a model reads all of it. */
  providerDescriptionChars: count().default(4 * KiB),
  /** Largest schema of a tool as JSON; a tool with a larger one is left out. */
  providerSchemaBytes: bytes().default(32 * KiB),
  /** Deepest nesting of such a schema. */
  providerSchemaDepth: count().default(24),
  /** Definitions of all tools of one server as JSON, so that what is kept of it stays small. */
  providerListBytes: bytes().default(2 * MiB),
  /** Shortest time between two lists of one server that are looked at. */
  providerListMs: ms().default(250),
  /** Input of one call as JSON. */
  providerInputBytes: bytes().default(4 * MiB),
  /** Shortest time between two words on the progress of one call that are passed on. */
  providerProgressMs: ms().default(100),
  /** What a server may write to its error output in a second that reaches the log. */
  providerStderrBytes: bytes().default(4 * KiB),
  /** Memory of a provider's whole process tree, in MiB, unless its configuration says less. */
  providerMemoryMb: count().default(1024),
  /** Processes and threads of a provider. */
  providerTasksMax: count().default(256),
  /** Time from one look at that memory to the next where no control group holds it. */
  providerLookMs: ms().default(250),
};
