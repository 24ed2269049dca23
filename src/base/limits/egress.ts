/** Bounds of the egress process: connections of commands, names that it looks up, and the process itself. */
import { doorLimits } from './doors.ts';
import { KiB } from './units.ts';

export const egressLimits = {
  ...doorLimits,
  /** Open connections of one command through the egress proxy. */
  egressCommandConnectionsMax: 64,
  /** Open connections of all commands: two descriptors each, of openFilesMax. Beyond it the command with the most loses one. */
  egressConnectionsMax: 320,
  /** Running commands with network access; each has a listener in the proxy. */
  egressCommandsMax: 256,
  /** Header bytes of one message through the proxy; longer headers are refused before they are buffered. */
  egressHeaderBytesMax: 16 * KiB,
  /** Time from a connection to its complete request, so that slow clients can't occupy connections. */
  egressHeaderMs: 10_000,
  /** Time for resolving a name, and for connecting to one of its addresses. */
  egressConnectMs: 10_000,
  /** Idle time after which a connection is closed. */
  egressIdleMs: 120_000,
  /** Concurrent name lookups of one command, each of which takes a thread of the proxy; further connections wait. */
  egressLookupsMax: 4,
  /** Names whose addresses the proxy keeps. */
  egressNamesKeptMax: 1024,
  /** Longest time for which the proxy keeps a name's addresses; the name's own TTL may be shorter. */
  egressNameKeptMs: 300_000,
  /** Threads in which the proxy resolves names: more than one session's commands can occupy with names that never answer. */
  egressThreads: 64,
  /** Destinations of one command that its report lists individually, connected and refused; the command chooses the names. */
  egressTargetsMax: 32,
  /** JavaScript heap of the proxy, in MiB; a larger one ends it, and the next command starts a new one. */
  egressHeapMb: 128,
  /** Time for the proxy to answer the gateway; a proxy that takes longer is ended. */
  egressAnswerMs: 2_000,
  /** Time between two health checks of a service that calls use, on average; they are requests to others. */
  serviceCheckEveryMs: 60_000,
  /** Time since its last call after which a service that works is not checked any more, so that an idle daemon sends nothing. */
  serviceCheckUsedMs: 600_000,
};
