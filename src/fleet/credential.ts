/** What a member of a fleet holds: how to reach the bus, its own key, and the key by which it knows the operator. */
import { readFileSync, statSync } from 'node:fs';
import * as z from 'zod';
import { jsonOr } from '../base/text/json.ts';
import { FleetError } from './fleet-error.ts';
import { memberName, ROLES } from './roster.ts';

const busUrl = z.string().regex(/^nats:\/\/[a-z0-9][a-z0-9.-]*:\d{1,5}$/i, 'must be nats://HOST:PORT');
const seed = z.string().regex(/^SU[A-Z2-7]{56}$/, 'must be the seed of an nkey of a user');

const credential = z.strictObject({
  ringfenceFleet: z.literal(1),
  fleet: memberName,
  name: memberName,
  role: z.enum(ROLES),
  url: busUrl,
  /** PEM of the certificate by which the bus is known. */
  ca: z.string().max(16_384),
  /** The private nkey, which never leaves this machine. */
  seed,
  /** Base64url of the operator's public key. */
  operatorKey: z.string().max(64),
});

export type Credential = z.infer<typeof credential>;

/** What an invited machine needs to ask for its place; works once. */
const token = z.strictObject({
  ...credential.pick({ fleet: true, name: true, role: true, url: true, ca: true, operatorKey: true }).shape,
  invitation: z.string().regex(/^[0-9a-f]{16}$/),
  /** The nkey that may do nothing but ask. */
  seed,
  /** Proves to the operator that the machine has this token; the bus never sees it. */
  secret: z.string().regex(/^[0-9a-f]{64}$/),
});

export type Token = z.infer<typeof token>;

const TOKEN_PREFIX = 'rffleet1.';

export const toToken = (given: Token): string =>
  TOKEN_PREFIX + Buffer.from(JSON.stringify(given)).toString('base64url');

/** Reads a token. Throws FleetError. */
export function readToken(text: string): Token {
  const wrong = new FleetError('this is no token of `ringfence fleet invite`; copy all of it');
  if (!text.startsWith(TOKEN_PREFIX)) throw wrong;
  const parsed = token.safeParse(
    jsonOr(Buffer.from(text.slice(TOKEN_PREFIX.length), 'base64url').toString(), undefined),
  );
  if (!parsed.success) throw wrong;
  return parsed.data;
}

/** Reads the file of a credential, which only its owner may read. Throws FleetError. */
export function readCredential(path: string): Credential {
  let text: string;
  try {
    const { mode, uid } = statSync(path);
    if ((mode & 0o077) !== 0 || uid !== process.getuid?.())
      throw new FleetError(`${path} must be yours and closed to others (mode 0600)`);
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof FleetError) throw error;
    throw new FleetError(`${path} can't be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  const parsed = credential.safeParse(jsonOr(text, undefined));
  if (!parsed.success) throw new FleetError(`${path} is no credential of a fleet: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}
