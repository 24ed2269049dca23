/**
 * Texts that the operator has signed with ed25519. The bus carries them and is trusted with nothing: whoever reads one
 * checks the signature with the public key that came with the invitation.
 */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signWith,
  verify as verifyWith,
} from 'node:crypto';
import * as z from 'zod';
import { FleetError } from './fleet-error.ts';

/** What a signed text is for; a signature for one purpose is never valid for another. */
export type Purpose = 'roster' | 'order';

const prefixOf = (purpose: Purpose): string => `ringfence fleet ${purpose} 1\n`;

export const signedText = z.strictObject({ text: z.string(), signature: z.string().max(128) });
export type SignedText = z.infer<typeof signedText>;

/** DER of a public ed25519 key before its 32 bytes. */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

export interface OperatorKeys {
  /** PEM; only the operator has it. */
  readonly privateKey: string;
  /** Base64url of the 32 bytes; every member of the fleet has it. */
  readonly publicKey: string;
}

export function createOperatorKeys(): OperatorKeys {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return {
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    publicKey: rawOf(publicKey),
  };
}

const rawOf = (key: KeyObject): string =>
  key.export({ type: 'spki', format: 'der' }).subarray(SPKI_PREFIX.length).toString('base64url');

/** The public half of a private key in PEM. Throws FleetError. */
export const publicKeyOf = (privateKey: string): string => rawOf(createPublicKey(privateKeyOf(privateKey)));

function privateKeyOf(pem: string): KeyObject {
  let key: KeyObject | undefined;
  try {
    key = createPrivateKey(pem);
  } catch {
    key = undefined; // The text is not PEM.
  }
  if (key?.asymmetricKeyType === 'ed25519') return key;
  throw new FleetError('the key of the operator must be an ed25519 private key in PEM');
}

/** PEM of a public key; `raw` is base64url of its 32 bytes. */
export const publicPemOf = (raw: string): string =>
  publicKeyObject(Buffer.from(raw, 'base64url')).export({ type: 'spki', format: 'pem' }) as string;

const publicKeyObject = (raw: Buffer): KeyObject =>
  createPublicKey({ key: Buffer.concat([SPKI_PREFIX, raw]), format: 'der', type: 'spki' });

/** Signs a text with the operator's private key in PEM. Throws FleetError. */
export function signText(purpose: Purpose, text: string, privateKey: string): SignedText {
  const signature = signWith(null, Buffer.from(prefixOf(purpose) + text), privateKeyOf(privateKey));
  return { text, signature: signature.toString('base64') };
}

/** The text, if the owner of the public key has signed it for this purpose; else undefined. */
export function verifiedText(purpose: Purpose, { text, signature }: SignedText, publicKey: string): string | undefined {
  const raw = Buffer.from(publicKey, 'base64url');
  if (raw.length !== 32) return undefined;
  const key = publicKeyObject(raw);
  const isSigned = verifyWith(null, Buffer.from(prefixOf(purpose) + text), key, Buffer.from(signature, 'base64'));
  return isSigned ? text : undefined;
}
