/**
 * How a machine becomes a member. The operator makes a token and waits; the machine makes its own key and sends the public
 * half, with a proof that it has the token. The bus sees neither the secret of the token nor a private key, so that it can
 * put nobody else in the machine's place.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import * as z from 'zod';
import type { Token } from './credential.ts';
import { userKey } from './roster.ts';

export const joinRequest = z.strictObject({ key: userKey, proof: z.string().max(128) });
export type JoinRequest = z.infer<typeof joinRequest>;

export const joinAnswer = z.strictObject({ proof: z.string().max(128) });

/** The proof of one side: of the machine that this is its key, of the operator that it was taken. */
export const proofOf = (side: 'member' | 'operator', { secret, name, fleet }: Token, key: string): string =>
  createHmac('sha256', Buffer.from(secret, 'hex'))
    .update(`ringfence fleet join 1\n${side}\n${fleet}\n${name}\n${key}`)
    .digest('base64');

export function isProof(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
