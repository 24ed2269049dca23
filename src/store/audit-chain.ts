/** What proves the log to be ours: places in its chain, the key that signs and seals them. The walk that looks is audit-verify.ts. */
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
import { ToolError } from '../errors.ts';
import type { Powers } from '../powers.ts';

/** What comes before the first entry. */
export const GENESIS = '0'.repeat(64);

/** A place in the chain. */
export interface Place {
  readonly seq: number;
  readonly hash: string;
}

/** "Up to here, this is the log", said by who has the key. */
export interface Checkpoint extends Place {
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

  /** Throws ToolError STORE_FAILED when `pem` is no Ed25519 key. */
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

  sign(place: Omit<Checkpoint, 'signature'>): Checkpoint {
    return { ...place, signature: sign(null, signedText(place), this.#private).toString('base64') };
  }

  isSigned(checkpoint: Checkpoint): boolean {
    const signature = Buffer.from(checkpoint.signature, 'base64');
    // The decoder overlooks what is not base64; an edit of that kind is an edit, too.
    if (signature.toString('base64') !== checkpoint.signature) return false;
    return verify(null, signedText(checkpoint), this.#public, signature);
  }

  /** Proof that the log ends at `place`; cheap enough to be made with every write, where a signature is not. */
  seal({ seq, hash }: Place): string {
    return createHmac('sha256', this.#sealing).update(`${seq} ${hash}`).digest('base64');
  }

  /** Proof that `seq` is the last row of the table of checkpoints; no text of `seal` begins with a letter. */
  sealTableEnd(seq: number): string {
    return createHmac('sha256', this.#sealing).update(`checkpoints ${seq}`).digest('base64');
  }

  isSealed(place: Place, seal: string): boolean {
    return this.seal(place) === seal; // Whoever can time this can read the key.
  }
}

/** The key at `path`; undefined when there is none. Throws ToolError STORE_FAILED for something else, and the system's errors. */
export function readKey(path: string): SigningKey | undefined {
  try {
    return new SigningKey(readFileSync(path, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A new key at `path`, for its owner only. */
export function createKey(path: string, powers: Powers): SigningKey {
  const der = Buffer.concat([PKCS8_PREFIX, Buffer.from(powers.secret(), 'hex')]);
  const pem = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }).export({ type: 'pkcs8', format: 'pem' });
  writeFileSync(path, pem, { mode: 0o600, flag: 'wx', flush: true });
  return new SigningKey(pem as string);
}
