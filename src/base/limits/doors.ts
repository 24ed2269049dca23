/** Bounds of questions about hosts that no list of a policy names. */
import { MiB } from './units.ts';

export const doorLimits = {
  /** Time for which a connection waits for a person; the program may give up earlier, and the question stays. */
  doorHoldMs: 120_000,
  /** The same for a client of MCP that shows no questions: those give up after a minute. */
  doorHoldUnseenMs: 40_000,
  /** Time for which a question about a host can be answered, and for which a late yes counts for the next connection. */
  doorQuestionMs: 600_000,
  /** Time for which a session that asked in vain asks about no more hosts, unless a person revokes that. */
  doorClosedMs: 86_400_000,
  /** Open questions about hosts of one session; a person who is asked constantly approves everything. */
  doorQuestionsMax: 8,
  /** Questions about hosts that one principal may cause in one workspace within an hour. */
  doorQuestionsPerHour: 20,
  /** Bytes that a session may send to hosts that a person opened before they are asked again. */
  doorUploadBytesMax: 10 * MiB,
};
