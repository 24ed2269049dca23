/**
 * Challenge and answer: a page and its listener each prove that they have the same key, and neither sends it. What listens at the port
 * after the daemon has ended learns nothing that opens a session.
 */
import { createHmac } from 'node:crypto';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { sameSecret } from '../../wire/transport/same-secret.ts';

interface Challenge {
  readonly id: string;
  readonly key: string;
  /** The origin and both nonces, so that a proof counts nowhere else and never again. */
  readonly words: readonly string[];
  readonly expiresMs: number;
}

export interface ChallengeParts {
  readonly limits: Pick<Limits, 'panelCodeMs' | 'panelSessionsMax'>;
  readonly powers: Pick<Powers, 'monotonicMs' | 'secret'>;
}

export class Challenges {
  readonly #parts: ChallengeParts;
  /** Challenges that no page has answered, by our nonce; oldest first. */
  readonly #open = new Map<string, Challenge>();

  constructor(parts: ChallengeParts) {
    this.#parts = parts;
  }

  /** Proves to a page with this nonce that we have the key; the page answers with a proof of its own. */
  begin({ id, key }: Pick<Challenge, 'id' | 'key'>, origin: string, nonce: string): { nonce: string; proof: string } {
    const { limits, powers } = this.#parts;
    const own = powers.secret();
    const words = [origin, nonce, own];
    this.#open.set(own, { id, key, words, expiresMs: powers.monotonicMs() + limits.panelCodeMs });
    const [oldest] = this.#open.keys();
    if (this.#open.size > limits.panelSessionsMax && oldest !== undefined) this.#open.delete(oldest);
    return { nonce: own, proof: proofOf(key, 'daemon', words) };
  }

  /** The challenge that a page has answered, once, and a key that only the two have; undefined if the proof is none. */
  end(nonce: string, proof: string): { id: string; key: string } | undefined {
    const challenge = this.#open.get(nonce);
    if (!challenge || !sameSecret(proof, proofOf(challenge.key, 'page', challenge.words))) return undefined;
    this.#open.delete(nonce);
    const { id, key, words, expiresMs } = challenge;
    return expiresMs > this.#parts.powers.monotonicMs() ? { id, key: proofOf(key, 'key', words) } : undefined;
  }
}

/** HMAC-SHA256 in hexadecimal over the role and the words, one a line. */
export const proofOf = (key: string, role: 'daemon' | 'page' | 'key', words: readonly string[]): string =>
  createHmac('sha256', key)
    .update([role, ...words].join('\n'))
    .digest('hex');
