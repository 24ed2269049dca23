/** Bounds of the fleet, and what its files and packages must be. */
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { defaultLimits, type Limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { usersConfig } from '../../src/fleet/bus-config.ts';
import { readCredential, readToken } from '../../src/fleet/credential.ts';
import { NodeOrders } from '../../src/fleet/node-orders.ts';
import { NodeState } from '../../src/fleet/node-state.ts';
import { signOrder } from '../../src/fleet/orders.ts';
import { Presence, presenceAt } from '../../src/fleet/presence.ts';
import { FleetProcess } from '../../src/fleet/process.ts';
import { changed, type Roster, readRoster, signRoster } from '../../src/fleet/roster.ts';
import { createOperatorKeys } from '../../src/fleet/signing.ts';
import { removeTree, startDaemon, temporaryDir } from '../support/daemon.ts';

const folder = temporaryDir('fleet-bounds');
afterAll(() => removeTree(folder));
const { privateKey, publicKey } = createOperatorKeys();
const key = (n: number) =>
  `U${String(n)
    .padStart(55, 'A')
    .replaceAll(/[0189]/g, 'B')}`;
const roster: Roster = { fleet: 'test', version: 1, members: [], invitations: [] };
const powers = systemPowers();

describe('a roster', () => {
  test('a roster has at most as many members and invitations as the limits permit', () => {
    const limits: Limits = { ...defaultLimits, fleetMembersMax: 2, fleetInvitationsMax: 1 };
    const member = (n: number) => ({ name: `n${n}`, role: 'node' as const, key: key(n), labels: [] });
    const two = changed(roster, { members: [member(2), member(3)] }, limits);
    expect(two.version).toBe(2);
    expect(() => changed(two, { members: [...two.members, member(4)] }, limits)).toThrow('3 members; at most 2');
    const invitations = [2, 3].map((n) => ({ id: String(n).repeat(16), key: key(n) }));
    expect(() => changed(two, { invitations }, limits)).toThrow('2 invitations are open; at most 1');
    const large = signRoster({ ...two, members: [2, 3, 4].map(member) }, privateKey);
    expect(() => readRoster(large, publicKey, limits)).toThrow('at most 2');
  });

  test('counts only if the operator has signed it', () => {
    const signed = signRoster(roster, privateKey);
    expect(readRoster(signed, publicKey, defaultLimits)).toEqual(roster);
    for (const wrong of [
      null,
      { ...signed, text: signed.text.replace('"test"', '"tess"') },
      { ...signed, signature: '' },
      signRoster(roster, createOperatorKeys().privateKey),
    ])
      expect(() => readRoster(wrong, publicKey, defaultLimits)).toThrow('not signed');
  });

  test('gives each member subjects of its own and nothing to a name that it does not have', () => {
    const config = usersConfig({ ...roster, members: [{ name: 'n1', role: 'node', key: key(2), labels: [] }] });
    const own = '"rf.hb.n1", "rf.ap.n1", "rf.audit.n1", "rf.roster", "rf.policy", "rf.gw.*.n1.*"';
    // Leases are values that a node writes, and a stream that it looks at; it makes and removes none.
    const reading = ['STREAM.INFO.KV_owner_n1', 'STREAM.MSG.GET.KV_owner_n1', 'DIRECT.GET.KV_owner_n1.>'];
    const leases = ['$KV.owner_n1.*', ...reading.map((it) => `$JS.API.${it}`)].map((it) => JSON.stringify(it));
    expect(config).toContain(`publish { allow: [${[own, ...leases].join(', ')}] }`);
    expect(config).toContain(
      'subscribe { allow: ["rf.op.n1", "rf.node.n1.open", "rf.node.n1.s.*", "_INBOX.node-n1.>"] }',
    );
  });
});

test('presence follows heartbeats, of at most so many nodes', () => {
  expect([0, 1_499, 1_500, 2_899, 2_900].map((it) => presenceAt(0, it))).toEqual([
    'here',
    'here',
    'suspected',
    'suspected',
    'lost',
  ]);
  const presence = new Presence(1);
  const beat = { epoch: '1', version: '1', policy: 'p', sessions: 0, running: 0, queued: 0, questions: 0 };
  const whole = { ...beat, paused: false, draining: false, load: 0, freeMemory: 1 };
  presence.hear('a', whole, 1);
  presence.hear('b', whole, 1);
  presence.hear('a', { ...whole, load: 'heavy' }, 2);
  expect(presence.all).toEqual([{ node: 'a', heardAtMs: 1, beat: whole }]);
});

test('questions come in messages below the bound; one that is too long as a whole comes cut', async () => {
  const limits: Limits = { ...defaultLimits, fleetQuestionBytesMax: 2_000 };
  const approvals = Array.from({ length: 5 }, (_, n) => ({ approvalId: `a_${n}`, input: 'x'.repeat(600) }));
  const long = { approvalId: 'a_9', input: 'cut', truncated: true };
  const all = [...approvals, long];
  const orders = new NodeOrders({
    credential: { name: 'a' },
    operatorKey: publicKey,
    keys: { sign: () => '' },
    state: new NodeState(join(folder, 'state.json')),
    limits,
    powers,
    daemon: {
      request: async (method: string, { approvalId }: { approvalId?: string }) =>
        method === 'approvals.list'
          ? { approvals: all }
          : { approval: all.find((it) => it.approvalId === approvalId), whole: { input: 'y'.repeat(5_000) } },
    } as never,
  });
  const ask = async (from: number) => {
    const now = powers.now();
    const body = { id: powers.secret(), node: 'a', issuedAtMs: now, expiresAtMs: now + 1_000 };
    const answer = await orders.obey(signOrder({ ...body, order: { kind: 'questions', from } }, privateKey));
    if (!('answer' in answer)) throw new Error(answer.refused);
    return JSON.parse(answer.answer) as {
      questions: { approval: { approvalId: string }; whole?: object }[];
      next?: number;
    };
  };
  const first = await ask(0);
  expect([first.questions.length, first.next]).toEqual([3, 3]);
  const last = await ask(5);
  expect([last.questions[0]?.approval.approvalId, last.questions[0]?.whole, last.next]).toEqual([
    'a_9',
    undefined,
    undefined,
  ]);
});

test('a state that was damaged counts as none', () => {
  const path = join(folder, 'damaged.json');
  writeFileSync(path, '{"isDrain');
  const state = new NodeState(path);
  expect([state.isDraining, state.lastIssuedAtMs]).toEqual([false, 0]);
  state.note(7, true);
  const again = new NodeState(path);
  expect([again.isDraining, again.lastIssuedAtMs]).toEqual([true, 7]);
});

test('a credential that others can read is refused, and a token that was cut', () => {
  const path = join(folder, 'credential.json');
  writeFileSync(path, '{}', { mode: 0o600 });
  expect(() => readCredential(path)).toThrow('is no credential of a fleet');
  chmodSync(path, 0o644);
  expect(() => readCredential(path)).toThrow('closed to others');
  expect(() => readCredential(join(folder, 'none'))).toThrow('ENOENT');
  for (const it of ['', 'rffleet1.', 'rffleet1.e30']) expect(() => readToken(it)).toThrow('copy all of it');
});

test('a daemon without a place in a fleet does not start with --fleet, and says what to do', async () => {
  await expect(startDaemon({ args: ['--fleet', 'nats://localhost:1'] })).rejects.toThrow('fleet/credential.json');
  await expect(startDaemon({ args: ['--fleet', 'http://localhost'] })).rejects.toThrow('nats://HOST:PORT, not http');
});

test('a process that ends at its start is told with its reason', async () => {
  const program = [process.execPath, '--eval', 'process.exit(9)'];
  const sockets = { socket: '/none', mcpSocket: '/none' };
  const started = FleetProcess.start({ program, stateDir: folder, ...sockets, url: 'nats://localhost:1', powers });
  await expect(started).rejects.toThrow('ended with 9');
});
