/** The open sessions of one side. Each side tells the other that it is there, and ends a session whose other side is silent. */
import { bootMs, type Powers, type Timer } from '../../base/powers.ts';
import { LOST_MS } from '../presence.ts';
import { ALIVE_MS } from './opening.ts';
import type { SessionStream } from './stream.ts';

/** Time between two looks for silent sessions. */
const LOOK_MS = LOST_MS / 6;

export class OpenStreams implements Disposable {
  readonly #streams = new Map<string, SessionStream>();
  readonly #timers: readonly Timer[];

  constructor(powers: Pick<Powers, 'every'>) {
    this.#timers = [powers.every(ALIVE_MS, () => this.#keepAlive()), powers.every(LOOK_MS, () => this.#endSilent())];
  }

  get size(): number {
    return this.#streams.size;
  }

  has(session: string): boolean {
    return this.#streams.has(session);
  }

  /** Adds a session until its stream is closed. */
  add(session: string, stream: SessionStream): void {
    this.#streams.set(session, stream);
    stream.once('close', () => this.#streams.delete(session));
  }

  /** Takes a message of the bus for a session; drops it if the session is over. */
  receive(session: string, sealed: Uint8Array): void {
    this.#streams.get(session)?.receive(sealed);
  }

  #keepAlive(): void {
    for (const it of this.#streams.values()) it.keepAlive();
  }

  #endSilent(): void {
    const now = bootMs();
    for (const it of this.#streams.values())
      if (now - it.heardAtMs >= LOST_MS) it.destroy(new Error(`the other side was silent for ${LOST_MS} ms`));
  }

  [Symbol.dispose](): void {
    for (const it of this.#timers) it.cancel();
    for (const it of this.#streams.values()) it.destroy();
  }
}
