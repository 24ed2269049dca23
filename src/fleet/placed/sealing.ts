/**
 * Encryption of one session between gateway and node, so that the bus can neither read nor change it: X25519 with a key of
 * each side for this session alone, signed by both; then AES-256-GCM with a counter, which also keeps order and number.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';

/** DER of a public X25519 key before its 32 bytes. */
const SPKI_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');
const TAG_BYTES = 16;

export interface SessionKeys {
  readonly privateKey: KeyObject;
  /** Base64url of the 32 bytes. */
  readonly publicKey: string;
}

export function createSessionKeys(): SessionKeys {
  const { privateKey, publicKey } = generateKeyPairSync('x25519');
  const der = publicKey.export({ type: 'spki', format: 'der' });
  return { privateKey, publicKey: der.subarray(SPKI_PREFIX.length).toString('base64url') };
}

/** Seals and opens the messages of one side. */
export class Sealing {
  readonly #sealKey: Buffer;
  readonly #openKey: Buffer;
  #sealed = 0;
  #opened = 0;

  /** `transcript`: what both sides have signed; another one gives other keys. Throws for a key that is none. */
  constructor(side: 'gateway' | 'node', own: SessionKeys, other: string, transcript: string) {
    const raw = Buffer.concat([SPKI_PREFIX, Buffer.from(other, 'base64url')]);
    const publicKey = createPublicKey({ key: raw, format: 'der', type: 'spki' });
    const secret = diffieHellman({ privateKey: own.privateKey, publicKey });
    const salt = createHash('sha256').update(transcript).digest();
    const keyOf = (from: string) => Buffer.from(hkdfSync('sha256', secret, salt, `from ${from}`, 32));
    this.#sealKey = keyOf(side);
    this.#openKey = keyOf(side === 'gateway' ? 'node' : 'gateway');
  }

  seal(...parts: readonly Uint8Array[]): Uint8Array {
    const cipher = createCipheriv('aes-256-gcm', this.#sealKey, nonceOf(this.#sealed++));
    const sealed = parts.map((it) => cipher.update(it));
    return Buffer.concat([...sealed, cipher.final(), cipher.getAuthTag()]);
  }

  /** The next message; undefined if it is not the next one of the other side. */
  open(sealed: Uint8Array): Buffer | undefined {
    if (sealed.length < TAG_BYTES) return undefined;
    const decipher = createDecipheriv('aes-256-gcm', this.#openKey, nonceOf(this.#opened));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    try {
      const plain = decipher.update(sealed.subarray(0, -TAG_BYTES));
      decipher.final(); // Checks the tag; GCM has no last block.
      this.#opened += 1;
      return plain;
    } catch {
      return undefined; // The tag does not fit: changed, lost before, repeated, or somebody else's.
    }
  }
}

function nonceOf(count: number): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(count), 4);
  return nonce;
}
