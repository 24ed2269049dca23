/** `ringfence fleet invite` and `fleet join` make a machine a member, one side each; `fleet revoke` ends that. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { replaceFile } from '../../base/disk.ts';
import { defaultLimits as limits } from '../../base/limits.ts';
import { pause } from '../../base/powers.ts';
import { findUserDirs, makeStateDir } from '../../daemon/user-dirs.ts';
import { type Credential, readCredential, readToken, type Token, toToken } from '../../fleet/credential.ts';
import { FleetError } from '../../fleet/fleet-error.ts';
import { fleetFiles } from '../../fleet/folder.ts';
import { isProof, joinAnswer, joinRequest, proofOf } from '../../fleet/invitation.ts';
import type { FleetLink } from '../../fleet/link.ts';
import { Unanswered } from '../../fleet/link.ts';
import { connectBus, memberKeys } from '../../fleet/nats.ts';
import { preparePolicy } from '../../fleet/policy/policy-files.ts';
import { labelName, type Member, memberName, type Roster } from '../../fleet/roster.ts';
import { inboxOf, subjects } from '../../fleet/subjects.ts';
import { fromWire, toWire } from '../../fleet/wire.ts';
import type { CliCaller } from '../connect.ts';
import { CliError, EXIT, harmless, print, printJson, say, UsageError } from '../output.ts';
import {
  changeRoster,
  connectOperator,
  type FleetFlags,
  folderOf,
  keptAlive,
  powers,
  RETRY_MS,
  ROSTER_MS,
  retried,
} from './operator.ts';

const JOIN_MS = 15_000;

/** Prints a token for one machine, and waits until that machine has joined. */
export async function fleetInvite(
  name: string,
  {
    label = [],
    wait,
    gateway = false,
    ...flags
  }: FleetFlags & { label?: readonly string[]; wait: number; gateway?: boolean },
  caller: CliCaller,
): Promise<number> {
  const folder = folderOf(flags, caller);
  const bad = [name].filter((it) => !memberName.safeParse(it).success);
  const badLabels = label.filter((it) => !labelName.safeParse(it).success);
  if (bad.length + badLabels.length > 0 || label.length > 32)
    throw new UsageError(harmless(`names and labels are a-z, 0-9 and -: ${[...bad, ...badLabels].join(', ')}`));
  if (!(wait > 0 && wait <= 3600)) throw new UsageError(`--wait takes 1 to 3600 seconds, not ${wait}`);
  const asking = await memberKeys();
  const { fleet, url, ca, operatorKey } = readCredential(fleetFiles(folder).operatorCredential);
  const invitation = powers.secret().slice(0, 16);
  const role = gateway ? 'gateway' : 'node';
  const whole: Token = {
    fleet,
    name,
    role,
    url,
    ca,
    operatorKey,
    invitation,
    seed: asking.seed,
    secret: powers.secret(),
  };
  await changeRoster(folder, (roster) => invited(roster, { name, id: invitation, key: asking.publicKey }));
  const close = (member?: Member) =>
    changeRoster(folder, ({ members, invitations }) => ({
      members: member ? [...members, member] : members,
      invitations: invitations.filter((it) => it.id !== invitation),
    }));
  let key: string | undefined;
  try {
    await using link = await connectOperator(folder);
    if (flags.json) printJson({ token: toToken(whole) });
    else print(toToken(whole));
    say(harmless(`on the machine: ringfence fleet join TOKEN; waiting ${wait} s for ${name}, Ctrl-C gives up`));
    key = await asked(link, whole, wait * 1000);
  } finally {
    await close(key === undefined ? undefined : { name, role, key, labels: [...label] });
  }
  if (key === undefined) throw new CliError(EXIT.LIMITED, harmless(`${name} did not join; the token is void`));
  say(harmless(`${name} has joined`));
  return EXIT.OK;
}

function invited(roster: Roster, { name, ...invitation }: { name: string; id: string; key: string }): Partial<Roster> {
  if (roster.members.some((it) => it.name === name))
    throw new FleetError(`${name} is a member already; revoke it first, or choose another name`);
  return { invitations: [...roster.invitations, invitation] };
}

/** Waits for the request of the machine that has the token; gives its public key, undefined after `waitMs` or Ctrl-C. */
async function asked(link: FleetLink, token: Token, waitMs: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  using _ = link.subscribe(subjects.join(token.invitation), (message) => {
    const request = joinRequest.safeParse(fromWire(message.data));
    if (!request.success) return;
    const { key, proof } = request.data;
    if (!isProof(proof, proofOf('member', token, key))) return say('somebody without the token asked, in vain');
    message.respond(toWire({ proof: proofOf('operator', token, key) }));
    resolve(key);
  });
  const timer = keptAlive.after(waitMs, () => resolve(undefined));
  process.once('SIGINT', () => resolve(undefined));
  const key = await promise;
  timer.cancel();
  // The answer must have left before the bus drops the user that asked.
  await pause(RETRY_MS, keptAlive);
  return key;
}

/** Makes this machine a node of a fleet, with a key that never leaves it. */
export async function fleetJoin(
  given: string,
  { json, ...flags }: { json?: boolean; state?: string },
  { env }: CliCaller,
): Promise<number> {
  const token = readToken(given === '-' ? (await text(process.stdin)).trim() : given);
  const { stateDir } = findUserDirs(flags, env);
  const path = join(stateDir, 'fleet/credential.json');
  if (existsSync(path))
    throw new UsageError(harmless(`this machine is a node already; to join another fleet, remove ${path}`));
  makeStateDir(stateDir);
  const keys = await memberKeys();
  await askToJoin(token, keys.publicKey);
  const { fleet, name, role, url, ca, operatorKey } = token;
  const credential: Credential = { ringfenceFleet: 1, fleet, name, role, url, ca, operatorKey, seed: keys.seed };
  // The bus lets the node in when it has read the new roster.
  await using _ = await retried(ROSTER_MS, () =>
    connectBus({ credential, inbox: inboxOf(role, name), waits: false, limits, powers }),
  );
  replaceFile(path, JSON.stringify(credential));
  if (role === 'node') preparePolicy(stateDir);
  if (json) printJson({ fleet, name, url });
  else
    say(
      harmless(
        `this machine is ${name} of the fleet ${fleet}; run: ringfence ${role === 'node' ? 'serve' : role} --fleet ${url}`,
      ),
    );
  return EXIT.OK;
}

/** Sends the public key to the operator who waits. Throws FleetError. */
async function askToJoin(token: Token, key: string): Promise<void> {
  const { invitation, name } = token;
  const inbox = inboxOf('join', invitation);
  await using link = await retried(ROSTER_MS, () =>
    connectBus({ credential: token, inbox, waits: false, limits, powers }),
  );
  const request = toWire({ key, proof: proofOf('member', token, key) });
  let answer: Uint8Array;
  try {
    answer = await link.request(subjects.join(invitation), request, JOIN_MS);
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    throw new FleetError(`nobody waits for ${name} any more; ask the operator for another token`);
  }
  const parsed = joinAnswer.safeParse(fromWire(answer));
  if (!parsed.success || !isProof(parsed.data.proof, proofOf('operator', token, key)))
    throw new FleetError('somebody else than the operator answered; this machine did not join');
}

/** Ends a node's membership: the bus drops it, and the hub takes nothing more of it. */
export async function fleetRevoke(name: string, flags: FleetFlags, caller: CliCaller): Promise<number> {
  await changeRoster(folderOf(flags, caller), ({ members }) => {
    const isIt = (it: Member) => it.name === name && (it.role === 'node' || it.role === 'gateway');
    if (!members.some(isIt)) throw new FleetError(`the fleet has no node or gateway ${name}`);
    return { members: members.filter((it) => !isIt(it)) };
  });
  if (flags.json) printJson({ revoked: name });
  else say(harmless(`${name} is no member any more`));
  return EXIT.OK;
}
