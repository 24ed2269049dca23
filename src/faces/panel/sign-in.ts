/** Signs pages of the web panel in: a code works once and soon expires, and gives a page a key that is never sent. */
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { PanelSessions } from '../../store/panel-sessions.ts';
import { Challenges } from './challenges.ts';

/** A code is the name of a secret, 64 bits, and the secret, 128 bits, in hexadecimal. */
const CODE_ID_CHARS = 16;
const CODE_SECRET_CHARS = 32;
/** What a page sends in place of a token: its id, our nonce, and its proof. */
const TICKET = /^(p_[\da-f]{12})\.([\da-f]{64})\.([\da-f]{64})$/;

export interface SignInParts {
  readonly sessions: Pick<PanelSessions, 'add' | 'keyOf'>;
  readonly limits: Pick<Limits, 'panelCodeMs' | 'panelCodesMax' | 'panelSessionsMax'>;
  readonly powers: Pick<Powers, 'now' | 'monotonicMs' | 'secret'>;
  /** Called with the id of a page that has signed in. */
  onSignIn(id: string): void;
}

export class SignIn {
  readonly #parts: SignInParts;
  readonly #challenges: Challenges;
  /** Secrets of codes that no page has used, with the monotonic times at which they expire; oldest first. */
  readonly #codes = new Map<string, { secret: string; expiresMs: number }>();

  constructor(parts: SignInParts) {
    this.#parts = parts;
    this.#challenges = new Challenges(parts);
  }

  /** Makes a code. `expiresAt` is ISO 8601. */
  newCode(): { code: string; expiresAt: string } {
    const { limits, powers } = this.#parts;
    const id = powers.secret().slice(0, CODE_ID_CHARS);
    const secret = powers.secret().slice(0, CODE_SECRET_CHARS);
    this.#codes.set(id, { secret, expiresMs: powers.monotonicMs() + limits.panelCodeMs });
    const [oldest] = this.#codes.keys();
    if (this.#codes.size > limits.panelCodesMax && oldest !== undefined) this.#codes.delete(oldest);
    return { code: id + secret, expiresAt: new Date(powers.now() + limits.panelCodeMs).toISOString() };
  }

  /** Proves to a page which code, or signed-in page, we know; undefined if there is none with this id. Throws STORE_FAILED. */
  challenge(id: string, origin: string, nonce: string): { nonce: string; proof: string } | undefined {
    const code = this.#codes.get(id);
    const isOpen = code !== undefined && code.expiresMs > this.#parts.powers.monotonicMs();
    const key = isOpen ? code.secret : this.#parts.sessions.keyOf(id);
    return key === undefined ? undefined : this.#challenges.begin({ id, key }, origin, nonce);
  }

  /** Signs in a page that has proved to have a code, which is used up; undefined for another proof. Throws STORE_FAILED. */
  exchange(nonce: string, proof: string): { page: string; expires: string } | undefined {
    const proved = this.#challenges.end(nonce, proof);
    if (!proved || !this.#codes.delete(proved.id)) return undefined;
    const { id, expiresMs } = this.#parts.sessions.add(proved.key);
    this.#parts.onSignIn(id);
    return { page: id, expires: new Date(expiresMs).toISOString() };
  }

  /** The id of the page that gives this ticket, which counts once; undefined for any other text. Throws STORE_FAILED. */
  pageOf(ticket: string): string | undefined {
    const [, id, nonce = '', proof = ''] = TICKET.exec(ticket) ?? [];
    const proved = id === undefined ? undefined : this.#challenges.end(nonce, proof);
    return proved !== undefined && proved.id === id && this.#parts.sessions.keyOf(id) !== undefined ? id : undefined;
  }
}
