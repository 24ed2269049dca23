/** Bounds of agents' own code: the resources of one program, and the number of programs. */
import { KiB, MiB } from './units.ts';

export const isolateLimits = {
  /** Running programs over all sessions; each is a process that can keep a core busy. */
  isolatesMax: 4,
  /** Running programs of one session. */
  sessionIsolatesMax: 2,
  /** Isolate hosts, including idle and spare ones; each costs about 60 MiB. */
  isolateHostsMax: 8,
  /** Programs that one isolate host runs one after another before it is replaced, so that leaks stay small. */
  isolateRunsMax: 1_000,
  /** Time from the end of a program's time to the SIGKILL of its host; native loops do not notice the end. */
  isolateGraceMs: 250,
  /** Interval at which the memory of a host with a running program is measured; a fifth of it once half is used. */
  isolateLookMs: 10,
  /** Memory of a host beyond its program's, in MiB: uncollected garbage, copies of results of its calls. */
  isolateHeadroomMb: 96,
  /** JavaScript heap of one program, in MiB. */
  codeMemoryMb: 256,
  /** CPU time of one program, without its calls. */
  codeCpuMs: 30_000,
  /** Longest source, so that parsing it costs little compared with running it. */
  codeCharsMax: 256 * KiB,
  /** Bytes of a program's value as JSON. */
  codeResultBytes: MiB,
  /** Lines that one program may log. */
  codeLogsMax: 200,
  /** Characters of all lines that one program logs. */
  codeLogChars: 32 * KiB,
  /** Pending timers of one program. */
  codeTimersMax: 100,
  /** Tool calls of one program; each is recorded. */
  codeCallsMax: 1_000,
  /** Concurrent tool calls of one program; further ones wait in the isolate host. */
  codeConcurrencyMax: 8,
  /** Bytes of the input of one tool call as JSON; all waiting inputs together may take eight times as much. */
  codeCallBytes: MiB,
  /** Bytes of the result of one tool call that the program gets. */
  codeAnswerBytes: 4 * MiB,
  /** Total time for which a program's clock may stop while its calls wait for a person. */
  codePausedMs: 600_000,
  /** Characters of tool types in the description of code_run for models; beyond it only names are listed. */
  codeDeclarationsChars: 12 * KiB,
};
