/** What a connection to a server does, whatever kind of server it is. */
import type { Limits } from '../../src/base/limits.ts';
import { type Powers, settlesWithin } from '../../src/base/powers.ts';
import type { AskedOfServer, ServerAnswer } from '../../src/tools/context/databases.ts';
import type { Connector } from './connector.ts';

export type Answer = Omit<ServerAnswer, 'durationMs'>;

export interface SessionParts {
  readonly connector: Connector;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Waits for work with a server, but not for ever: one that lies may never answer. Never rejects. */
export async function settled(work: Promise<unknown>, { limits, powers }: SessionParts): Promise<void> {
  await settlesWithin(work, limits.databaseEndMs, powers); // The work rejects if the connection is lost.
}

/** One login, used by one call at a time. */
export interface ServerSession {
  /** Whether another call may use it. */
  readonly isUsable: boolean;
  /** Throws Refused. */
  run(asked: AskedOfServer, withinMs: number): Promise<Answer>;
  /** Ends what a call left: its transaction, locks and settings. Never rejects. */
  reset(): Promise<void>;
  /** Has the server end the statement that runs; the session can't be used afterwards. Never rejects. */
  cancel(): Promise<void>;
  end(): void;
}
