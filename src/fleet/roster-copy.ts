/** A member's copy of the roster, which the hub gives out and only the operator can sign. */
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';
import { FleetError } from './fleet-error.ts';
import { type FleetLink, Unanswered } from './link.ts';
import { type Roster, readRoster } from './roster.ts';
import { subjects } from './subjects.ts';
import { fromWire, toWire } from './wire.ts';

/** Time between two questions for a newer roster; sooner while there is none. */
const ASK_MS = 10_000;
const FIRST_MS = 500;
const ANSWER_MS = 3_000;

export interface RosterCopyOptions {
  readonly link: FleetLink;
  readonly operatorKey: string;
  readonly limits: Limits;
  readonly powers: Powers;
}

export class RosterCopy implements Disposable {
  readonly #options: RosterCopyOptions;
  #timer: Timer | undefined;
  #roster: Roster | undefined;
  #isEnded = false;

  constructor(options: RosterCopyOptions) {
    this.#options = options;
    void this.#ask();
  }

  /** The newest roster that was heard; undefined before the first one. */
  get now(): Roster | undefined {
    return this.#roster;
  }

  async #ask(): Promise<void> {
    const { link, operatorKey, limits, powers } = this.#options;
    try {
      const answer = await link.request(subjects.roster, toWire({}), ANSWER_MS);
      const roster = readRoster(fromWire(answer), operatorKey, limits);
      // An old roster would let a member in that was revoked.
      if (roster.version >= (this.#roster?.version ?? 0)) this.#roster = roster;
    } catch (error) {
      if (error instanceof FleetError) powers.log.warn({ reason: error.message }, 'a roster was refused');
      else if (!(error instanceof Unanswered)) throw error;
    }
    if (!this.#isEnded) this.#timer = powers.after(this.#roster ? ASK_MS : FIRST_MS, () => void this.#ask());
  }

  [Symbol.dispose](): void {
    this.#isEnded = true;
    this.#timer?.cancel();
  }
}
