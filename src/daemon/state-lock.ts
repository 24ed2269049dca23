/** The lock of a state directory, which one daemon at a time uses. */
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { acquireLock } from '../store/database.ts';
import { makeRoomAtStart } from '../store/disk-room.ts';
import { lockFile } from './user-dirs.ts';

/** A daemon that can't start, in words for the person who started it. */
export class DaemonError extends Error {}

/** Disposing it releases the lock, if it was taken. */
export class StateLock implements Disposable {
  readonly #stateDir: string;
  readonly #parts: { readonly limits: Limits; readonly powers: Powers };
  #lock: Disposable | undefined;

  constructor(stateDir: string, parts: { readonly limits: Limits; readonly powers: Powers }) {
    this.#stateDir = stateDir;
    this.#parts = parts;
  }

  /** Locks the state directory against other daemons. Throws DaemonError if another one holds it, or the disk is full. */
  take(): void {
    const { limits, powers } = this.#parts;
    const makeRoom = () => makeRoomAtStart(this.#stateDir, limits, powers);
    this.#lock = acquireLock(lockFile(this.#stateDir), makeRoom);
    if (!this.#lock)
      throw new DaemonError(
        `another daemon uses ${this.#stateDir}; stop it with \`ringfence stop\`, or choose another state directory with --state`,
      );
    const advice = makeRoom();
    if (advice === undefined) return;
    this[Symbol.dispose]();
    throw new DaemonError(`the disk has too little space for the audit log: ${advice}`);
  }

  [Symbol.dispose](): void {
    this.#lock?.[Symbol.dispose]();
    this.#lock = undefined;
  }
}
