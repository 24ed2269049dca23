/**
 * The roster: one document, signed by the operator, that says who belongs to a fleet. It has the keys of all members, the
 * open invitations, and the policy that every node must follow. The permissions on the bus are made from it.
 */
import * as z from 'zod';
import type { Limits } from '../base/limits.ts';
import { parseJson } from '../base/text/json.ts';
import { FleetError } from './fleet-error.ts';
import { type SignedText, signedText, signText, verifiedText } from './signing.ts';

/** Names of members, which are parts of subjects on the bus. */
export const memberName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be a-z, 0-9 and -, at most 63');
export const labelName = z.string().regex(/^[a-z0-9][a-z0-9._=-]{0,62}$/, 'must be a-z, 0-9 and . _ = -, at most 63');
/** The public half of an nkey of a user. */
export const userKey = z.string().regex(/^U[A-Z2-7]{55}$/, 'must be the public nkey of a user');

export const ROLES = ['node', 'gateway', 'hub', 'operator'] as const;

const member = z.strictObject({
  name: memberName,
  role: z.enum(ROLES),
  key: userKey,
  labels: z.array(labelName).max(32),
});
const invitation = z.strictObject({ id: z.string().regex(/^[0-9a-f]{16}$/), key: userKey });

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/);

export const requiredBundle = z.strictObject({
  /** Version of the roster that first said so; a node never goes back to an older one. */
  revision: z.int().min(1),
  /** Digest of the policy bundle under which nodes take sessions; null if the operator requires none any more. */
  digest: digest.nullable(),
});
export type RequiredBundle = z.infer<typeof requiredBundle>;

const rosterBody = z.strictObject({
  fleet: memberName,
  /** Grows with each change, so that an old roster can't replace a newer one. */
  version: z.int().min(1),
  /** The version of the policy (`ringfence status` shows it) without which a node gets no sessions. */
  policy: digest.optional(),
  /** The signed bundle that every node must follow; absent if none was ever required. */
  bundle: requiredBundle.optional(),
  members: z.array(member),
  invitations: z.array(invitation),
});

export type Member = z.infer<typeof member>;
export type Roster = z.infer<typeof rosterBody>;

export const signRoster = (roster: Roster, privateKey: string): SignedText =>
  signText('roster', JSON.stringify(roster), privateKey);

/** The roster of a signed text. Throws FleetError if the operator has not signed it, or if it is none. */
export function readRoster(given: unknown, operatorKey: string, limits: Limits): Roster {
  const signed = signedText.safeParse(given);
  const text = signed.success ? verifiedText('roster', signed.data, operatorKey) : undefined;
  if (text === undefined) throw new FleetError('the roster is not signed by the operator of this fleet');
  const parsed = rosterBody.safeParse(parseJson(text));
  if (!parsed.success) throw new FleetError(`the roster is not valid: ${z.prettifyError(parsed.error)}`);
  assertBounds(parsed.data, limits);
  return parsed.data;
}

function assertBounds({ members, invitations }: Roster, { fleetMembersMax, fleetInvitationsMax }: Limits): void {
  if (members.length > fleetMembersMax)
    throw new FleetError(`the roster has ${members.length} members; at most ${fleetMembersMax} are allowed`);
  if (invitations.length > fleetInvitationsMax)
    throw new FleetError(`${invitations.length} invitations are open; at most ${fleetInvitationsMax} may be`);
}

/** The next version of a roster. Throws FleetError if it gets too large. */
export function changed(roster: Roster, change: Partial<Omit<Roster, 'version' | 'fleet'>>, limits: Limits): Roster {
  const next = { ...roster, ...change, version: roster.version + 1 };
  assertBounds(next, limits);
  return next;
}

/** The key of a member with this name and role; undefined if there is none. */
export const keyOf = ({ members }: Roster, role: Member['role'], name: string): string | undefined =>
  members.find((it) => it.role === role && it.name === name)?.key;
