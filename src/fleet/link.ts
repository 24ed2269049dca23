/** What the fleet needs of a bus. nats.ts is the one that is used; everything that comes over it is taken for hostile. */
import type { LeaseStore } from './leases.ts';

export interface BusMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  /** Answers a request; does nothing for a message that wants no answer. */
  respond(data: Uint8Array): void;
}

export interface FleetLink extends AsyncDisposable {
  readonly leases: LeaseStore;
  /** Whether the bus is reached at the moment, as far as is known. */
  readonly isConnected: boolean;
  /** Sends a message that may be lost; while the bus is not reached it is dropped. */
  publish(subject: string, data: Uint8Array): void;
  /** Settles when the server has taken all that was published before, or when the connection is lost. */
  flushed(): Promise<void>;
  /** Hears messages until it is disposed. Messages above the bound of the fleet are dropped. */
  subscribe(subject: string, hear: (message: BusMessage) => void): Disposable;
  /** Sends a request and gives the answer. Throws Unanswered. */
  request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array>;
}

/** A request without an answer. `nobody`: the bus is sure that nobody has heard it. `late`: somebody may have. */
export class Unanswered extends Error {
  readonly why: 'nobody' | 'late';
  constructor(why: Unanswered['why'], subject: string) {
    super(why === 'nobody' ? `nobody listens at ${subject}` : `no answer came from ${subject} in time`);
    this.why = why;
  }
}
