/** Signs pages of the web panel in: a code that works once and soon expires is exchanged for a token. */
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { PanelSessions } from '../store/panel-sessions.ts';

/** 128 bits in hexadecimal. */
const CODE_CHARS = 32;

export interface SignInParts {
  readonly sessions: Pick<PanelSessions, 'add'>;
  readonly limits: Pick<Limits, 'panelCodeMs' | 'panelCodesMax'>;
  readonly powers: Pick<Powers, 'now' | 'monotonicMs' | 'secret'>;
  /** Called with the id of a page that has signed in. */
  onSignIn(id: string): void;
}

export class SignIn {
  readonly #parts: SignInParts;
  /** Codes that no page has exchanged, with the monotonic times at which they expire; oldest first. */
  readonly #codes = new Map<string, number>();

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /** Makes a code. `expiresAt` is ISO 8601. */
  newCode(): { code: string; expiresAt: string } {
    const { limits, powers } = this.#parts;
    const code = powers.secret().slice(0, CODE_CHARS);
    this.#codes.set(code, powers.monotonicMs() + limits.panelCodeMs);
    const [oldest] = this.#codes.keys();
    if (this.#codes.size > limits.panelCodesMax && oldest !== undefined) this.#codes.delete(oldest);
    return { code, expiresAt: new Date(powers.now() + limits.panelCodeMs).toISOString() };
  }

  /** Exchanges a code for a token; undefined if the code is unknown, used or too old. Throws STORE_FAILED. */
  exchange(code: string): { token: string; expires: string } | undefined {
    const expiresMs = this.#codes.get(code);
    this.#codes.delete(code);
    if (expiresMs === undefined || expiresMs <= this.#parts.powers.monotonicMs()) return undefined;
    const { id, token, expiresMs: tokenExpiresMs } = this.#parts.sessions.add();
    this.#parts.onSignIn(id);
    return { token, expires: new Date(tokenExpiresMs).toISOString() };
  }
}
