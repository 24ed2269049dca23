/** The lock of a state directory, which one daemon at a time uses. */
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { acquireLock } from '../store/database.ts';
import { makeRoomAtStart } from '../store/disk-room.ts';
import { openState, SchemaError, schemaVersion } from '../store/state-schema.ts';
import { lockFile } from './user-dirs.ts';

/** A daemon that can't start, in words for the person who started it. */
export class DaemonError extends Error {}

interface Parts {
  /** The version of this program. */
  readonly version: string;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Disposing it releases the lock, if it was taken. */
export class StateLock implements Disposable {
  readonly #stateDir: string;
  readonly #parts: Parts;
  #held: Disposable | undefined;

  constructor(stateDir: string, parts: Parts) {
    this.#stateDir = stateDir;
    this.#parts = parts;
  }

  /** Throws DaemonError if a newer version of Ringfence has written the state; changes nothing. */
  check(): void {
    try {
      schemaVersion(this.#stateDir);
    } catch (error) {
      throw toDaemonError(error);
    }
  }

  /**
   * Locks the state directory against other daemons, and brings it to the schema version of this program. Throws
   * DaemonError if another daemon holds it, the disk is full, or this program can't use it.
   */
  async take(): Promise<void> {
    // Before `makeRoom`, which may delete kept output.
    this.check();
    this.#lock();
    try {
      await openState({ stateDir: this.#stateDir, ...this.#parts });
    } catch (error) {
      this[Symbol.dispose]();
      throw toDaemonError(error);
    }
  }

  #lock(): void {
    const { limits, powers } = this.#parts;
    const makeRoom = () => makeRoomAtStart(this.#stateDir, limits, powers);
    this.#held = acquireLock(lockFile(this.#stateDir), makeRoom);
    if (!this.#held)
      throw new DaemonError(
        `another daemon uses ${this.#stateDir}; stop it with \`ringfence stop\`, or choose another state directory with --state`,
      );
    const advice = makeRoom();
    if (advice === undefined) return;
    this[Symbol.dispose]();
    throw new DaemonError(`the disk has too little space for the audit log: ${advice}`);
  }

  [Symbol.dispose](): void {
    this.#held?.[Symbol.dispose]();
    this.#held = undefined;
  }
}

const toDaemonError = (error: unknown): unknown =>
  error instanceof SchemaError ? new DaemonError(error.message, { cause: error }) : error;
