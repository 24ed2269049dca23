/** Bounds of agents' own code: what one program may use, and how many there may be. */
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const isolateLimits = {
  /** Programs at once, over all sessions: each is a process that can keep a core busy. */
  isolatesMax: count().default(4),
  /** Of these, those of one session. */
  sessionIsolatesMax: count().default(2),
  /** Isolate hosts at once, idle and spare ones included; each costs about 60 MiB. */
  isolateHostsMax: count().default(8),
  /** Programs that one isolate host runs one after the other before it is replaced, so that what leaks stays small. */
  isolateRunsMax: count().default(1_000),
  /** From the end of a program's time to the SIGKILL of its host: native loops hear nothing. */
  isolateGraceMs: ms().default(250),
  /** From one look at the memory of a host that runs a program to the next; a fifth of it where half is taken. */
  isolateLookMs: ms().default(10),
  /** Memory that a host may take beyond what its program may, in MiB: garbage not yet collected, copies of results of its calls. */
  isolateHeadroomMb: count().default(96),
  /** JS heap of one program, in MiB. */
  codeMemoryMb: count().min(8).default(256),
  /** CPU time of one program, without its calls. */
  codeCpuMs: ms().default(30_000),
  /** Longest source, so that reading it costs little beside running it. */
  codeCharsMax: count().default(256 * KiB),
  /** Its value as JSON. */
  codeResultBytes: bytes().default(MiB),
  /** Lines that one program may log. */
  codeLogsMax: count().default(200),
  /** Characters of them, all together. */
  codeLogChars: count().default(32 * KiB),
  /** Timers that one program may have waiting. */
  codeTimersMax: count().default(100),
  /** Tool calls of one program; each is recorded. */
  codeCallsMax: count().default(1_000),
  /** Of these, those under way at once; the others wait in the isolate host. */
  codeConcurrencyMax: count().default(8),
  /** Input of one such call as JSON, and all inputs that wait together take eight times as much at most. */
  codeCallBytes: bytes().default(MiB),
  /** Result of one such call that is handed to the program. */
  codeAnswerBytes: bytes().default(4 * MiB),
  /** How long the time of a program may stand still in all while its calls wait for a person. */
  codePausedMs: ms().default(600_000),
  /** Characters of the tools' types in what a model is told of code_run; beyond it their names only. */
  codeDeclarationsChars: count().default(6 * KiB),
};
