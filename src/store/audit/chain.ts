/** Hash chain, signatures and seals that prove the audit log's integrity. Verification is in audit-verify.ts. */
import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  hash as digest,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';

/** The previous hash of the first entry. */
export const GENESIS = '0'.repeat(64);

export interface ChainPosition {
  readonly seq: number;
  readonly hash: string;
}

/** A signed statement that the log up to this position is genuine. */
export interface Checkpoint extends ChainPosition {
  readonly at: string;
  /** Ed25519, base64. */
  readonly signature: string;
}

/** DER of an Ed25519 private key (RFC 8410) up to its 32 bytes of seed. */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

const signedText = ({ seq, hash, at }: Omit<Checkpoint, 'signature'>): Buffer =>
  Buffer.from(`ringfence audit checkpoint 1\n${seq}\n${hash}\n${at}\n`);

export class SigningKey {
  readonly #private: KeyObject;
  readonly #public: KeyObject;
  readonly #sealing: Buffer;

  /** Throws ToolError STORE_FAILED if `pem` is no Ed25519 key. */
  constructor(pem: string) {
    try {
      this.#private = createPrivateKey(pem);
      this.#public = createPublicKey(this.#private);
    } catch (error) {
      throw new ToolError('STORE_FAILED', 'the signing key of the audit log is damaged', { cause: error });
    }
    if (this.#private.asymmetricKeyType !== 'ed25519')
      throw new ToolError('STORE_FAILED', 'the signing key of the audit log is not an Ed25519 key');
    const der = this.#private.export({ type: 'pkcs8', format: 'der' });
    this.#sealing = digest('sha256', Buffer.concat([Buffer.from('ringfence audit seal 1\n'), der]), 'buffer');
  }

  sign(position: Omit<Checkpoint, 'signature'>): Checkpoint {
    return { ...position, signature: sign(null, signedText(position), this.#private).toString('base64') };
  }

  isSigned(checkpoint: Checkpoint): boolean {
    const signature = Buffer.from(checkpoint.signature, 'base64');
    // The decoder ignores characters that are not base64, which would hide an edit.
    if (signature.toString('base64') !== checkpoint.signature) return false;
    return verify(null, signedText(checkpoint), this.#public, signature);
  }

  /** Proves that the log ends at `position`; cheap enough for every write, unlike a signature. */
  seal({ seq, hash }: ChainPosition): string {
    return createHmac('sha256', this.#sealing).update(`${seq} ${hash}`).digest('base64');
  }

  /** Proves that `seq` is the last row of the table of checkpoints. Can't be mistaken for a text of `seal`, which begins with a digit. */
  sealTableEnd(seq: number): string {
    return createHmac('sha256', this.#sealing).update(`checkpoints ${seq}`).digest('base64');
  }

  isSealed(position: ChainPosition, seal: string): boolean {
    return this.seal(position) === seal; // A timing attack does not matter here, since anybody who can measure this can read the key.
  }
}

/** The key at `path`; undefined if there is no file. Throws ToolError STORE_FAILED for other content, and file system errors. */
export function readKey(path: string): SigningKey | undefined {
  try {
    return new SigningKey(readFileSync(path, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Creates a key at `path`, readable only by its owner. */
export function createKey(path: string, powers: Powers): SigningKey {
  const der = Buffer.concat([PKCS8_PREFIX, Buffer.from(powers.secret(), 'hex')]);
  const pem = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }).export({ type: 'pkcs8', format: 'pem' });
  writeFileSync(path, pem, { mode: 0o600, flag: 'wx', flush: true });
  return new SigningKey(pem as string);
}
