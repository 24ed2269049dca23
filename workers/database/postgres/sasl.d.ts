/** The part of pg that logs in by SCRAM. */
declare module 'pg/lib/crypto/sasl.js' {
  import type { TLSSocket } from 'node:tls';

  export interface SaslSession {
    readonly mechanism: string;
    /** The message to send next. */
    readonly response: string;
  }
  /** Throws an Error if no mechanism is known. With a stream, the login is bound to its certificate. */
  export function startSession(mechanisms: readonly string[], stream: TLSSocket | null): SaslSession;
  export function continueSession(
    session: SaslSession,
    password: string,
    serverData: string,
    stream: TLSSocket | null,
  ): Promise<void>;
  /** Throws an Error if the server does not know the password. */
  export function finalizeSession(session: SaslSession, serverData: string): void;
}
