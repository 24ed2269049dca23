/** What a taken-over bus, hub or node can't do, tried on a real bus with the credentials that each of them has. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { FleetInbox } from '../../src/cli/fleet/inbox.ts';
import type { Nodes } from '../../src/cli/fleet/nodes.ts';
import { type Credential, readCredential, readToken } from '../../src/fleet/credential.ts';
import { fleetFiles, readFleet } from '../../src/fleet/folder.ts';
import { proofOf } from '../../src/fleet/invitation.ts';
import type { FleetLink } from '../../src/fleet/link.ts';
import { connectBus, memberKeys } from '../../src/fleet/nats.ts';
import type { OrderAnswer } from '../../src/fleet/node-orders.ts';
import { type Order, signOrder } from '../../src/fleet/orders.ts';
import { createOperatorKeys, type SignedText } from '../../src/fleet/signing.ts';
import { inboxOf, subjects } from '../../src/fleet/subjects.ts';
import { fromWire, toWire } from '../../src/fleet/wire.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { removeTree, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { noBus, TestFleet } from '../support/fleet.ts';

const ASK = `
rules:
  - { id: notes, match: { write: "notes/**" }, decision: ask, reason: Notes are the person's. }
`;
const powers = systemPowers();

describe.skipIf(noBus !== undefined)(`a hostile fleet${noBus ? ` (${noBus})` : ''}`, () => {
  let fleet: TestFleet;
  let a: TestDaemon;
  let b: TestDaemon;
  const links: FleetLink[] = [];
  beforeAll(async () => {
    fleet = await TestFleet.start();
    a = await fleet.node('node-a', { policy: ASK });
    b = await fleet.node('node-b', { policy: ASK });
  });
  afterAll(async () => {
    for (const it of links) await it[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
  });

  /** A connection with the credential of a member that was taken over. */
  const as = async (credential: Credential): Promise<FleetLink> => {
    const { role, name } = credential;
    const link = await connectBus({ credential, inbox: inboxOf(role, name), waits: false, limits, powers });
    links.push(link);
    return link;
  };
  const credentialOf = ({ stateDir }: TestDaemon) => readCredential(join(stateDir, 'fleet/credential.json'));
  const operatorCredential = () => readCredential(fleetFiles(fleet.folder).operatorCredential);
  const hubCredential = () => readCredential(fleetFiles(fleet.folder).hubCredential);
  /** Whoever has the bus can publish everything that the operator's connection can, but can't sign for the operator. */
  const ask = async (link: FleetLink, node: string, message: object): Promise<unknown> =>
    fromWire(await link.request(subjects.order(node), toWire(message), 5_000));
  let issuedMs = 0;
  const order = (node: string, what: Order, change: object = {}): SignedText => {
    // Two orders of one millisecond count as one after the other in no order.
    issuedMs = Math.max(powers.now(), issuedMs + 1);
    const now = issuedMs;
    const body = { id: powers.secret(), node, issuedAtMs: now, expiresAtMs: now + 60_000, order: what, ...change };
    return signOrder(body, readFleet(fleet.folder, limits).privateKey);
  };
  const pausedAt = async ({ connect }: TestDaemon): Promise<boolean> => {
    await using operator = await connect({ role: 'operator' });
    return ((await operator.request('status', {})) as { paused?: object }).paused !== undefined;
  };

  test('an order that the operator has not signed is refused', async () => {
    const link = await as(operatorCredential());
    const other = createOperatorKeys().privateKey;
    const now = powers.now();
    const body = { id: powers.secret(), node: 'node-a', issuedAtMs: now, expiresAtMs: now + 60_000 };
    const forged = signOrder({ ...body, order: { kind: 'pause', cancel: true } }, other);
    expect(await ask(link, 'node-a', forged)).toEqual({ refused: expect.stringContaining('not signed') });
    const real = order('node-a', { kind: 'pause', cancel: false });
    const altered = { ...real, text: real.text.replace('"cancel":false', '"cancel":true') };
    expect(await ask(link, 'node-a', altered)).toEqual({ refused: expect.stringContaining('not signed') });
    expect(await pausedAt(a)).toBe(false);
  });

  test('an order holds for its node alone, for its time alone, and can not be used again', async () => {
    const link = await as(operatorCredential());
    const resume = order('node-a', { kind: 'resume' });
    expect(await ask(link, 'node-b', resume)).toEqual({ refused: 'the order is for node-a, not for node-b' });
    const late = order('node-a', { kind: 'resume' }, { issuedAtMs: 1, expiresAtMs: 2 });
    expect(await ask(link, 'node-a', late)).toEqual({ refused: expect.stringContaining('expired') });
    const eternal = order('node-a', { kind: 'resume' }, { expiresAtMs: powers.now() + 3_600_000 });
    expect(await ask(link, 'node-a', eternal)).toEqual({
      refused: expect.stringContaining(String(limits.fleetOrderMs)),
    });
    expect(await ask(link, 'node-a', resume)).toHaveProperty('answer');
    expect(await ask(link, 'node-a', order('node-a', { kind: 'pause', cancel: false }))).toHaveProperty('answer');
    // The bus kept the order to resume, and sends it once more.
    expect(await ask(link, 'node-a', resume)).toEqual({ refused: expect.stringContaining('older') });
    expect(await pausedAt(a)).toBe(true);
    await fleet.cli('resume', 'node-a');
  });

  test('the hub can give no order, and hears no question', async () => {
    const link = await as(hubCredential());
    await expect(ask(link, 'node-a', order('node-a', { kind: 'questions', from: 0 }))).rejects.toThrow(
      /nobody|no answer/,
    );
  });

  test('a node can neither order another one nor speak under its name', async () => {
    const link = await as(credentialOf(b));
    await expect(ask(link, 'node-a', order('node-a', { kind: 'resume' }))).rejects.toThrow(/nobody|no answer/);
    const before = await fleet.json<{ name: string; version: string }[]>('nodes');
    const beat = { ...before[0], version: 'forged' };
    link.publish(subjects.heartbeat('node-a'), toWire(beat));
    expect(JSON.stringify(await fleet.json('nodes'))).not.toContain('forged');
  });

  test('a node that fills stores of leases keeps no other node from taking one, and writes none of its leases', async () => {
    const [hostile, honest] = [await as(credentialOf(b)), await as(credentialOf(a))];
    const [large, small] = [Buffer.alloc(700 * 1024), Buffer.from('x')];
    for (const bucket of ['owner', 'owner_node-a', 'owner_node-b']) {
      const before = await honest.leases.take(bucket, 'node-a');
      for (let n = 0; n < 96; n += 1) hostile.publish(`$KV.${bucket}.large${n}`, large);
      for (let n = 0; n < 2_000; n += 1) hostile.publish(`$KV.${bucket}.small${n}`, small);
      hostile.publish(`$KV.${bucket}.${bucket}`, small);
      await hostile.flushed();
      expect(await honest.leases.renew(bucket, 'node-a', before)).toBeGreaterThan(before);
      expect(await honest.leases.take(`other-${bucket}`, 'node-a')).toBeGreaterThan(0);
    }
    // Its own leases are kept until the values that it wrote have reached their age.
    await expect
      .poll(() => hostile.leases.take('own', 'node-b').catch(() => 0), { timeout: 10_000 })
      .toBeGreaterThan(0);
  });

  test('a message above the bound of the fleet is dropped unread', async () => {
    const heard = { small: 0, large: 0 };
    for (const [name, fleetMessageBytesMax] of [
      ['small', 64],
      ['large', limits.fleetMessageBytesMax],
    ] as const) {
      const credential = operatorCredential();
      const inbox = inboxOf('operator', 'operator');
      const bounds = { ...limits, fleetMessageBytesMax };
      const link = await connectBus({ credential, inbox, waits: false, limits: bounds, powers });
      links.push(link);
      link.subscribe(subjects.heartbeat('*'), () => {
        heard[name] += 1;
      });
    }
    await expect.poll(() => heard.large).toBeGreaterThan(3);
    expect(heard.small).toBe(0);
  });

  test('an answer to another question than was shown counts for none', async () => {
    await using client = await a.connect();
    await using operator = await a.connect({ role: 'operator' });
    const call = client.call('file_write', { path: 'notes/a.md', content: 'harmful' });
    const pending = async () => ((await operator.request('approvals.list', {})) as { approvals: Approval[] }).approvals;
    await expect.poll(pending).toHaveLength(1);
    const [real] = (await pending()) as [Approval];
    const sent: Order[] = [];
    // A bus that shows a harmless question, with the digest of the harmful one.
    const nodes = {
      names: ['node-a'],
      order: async (_: string, what: Order): Promise<OrderAnswer> => {
        if (what.kind === 'questions')
          return { questions: [{ approval: { ...real, input: { path: 'notes/a.md', content: 'harmless' } } }] };
        sent.push(what);
        return { done: 'approved' };
      },
    };
    const inbox = new FleetInbox(nodes as unknown as Nodes);
    const { approvals } = (await inbox.request('approvals.list', {})) as { approvals: Approval[] };
    await inbox.request('approvals.resolve', { approvalId: approvals[0]?.approvalId, decision: 'approve' });
    const [signed] = sent as [Order];
    expect(await ask(await as(operatorCredential()), 'node-a', order('node-a', signed))).toMatchObject({
      answer: expect.stringContaining('not what was shown'),
    });
    expect(await pending()).toHaveLength(1);
    await operator.request('approvals.resolve', { approvalId: real.approvalId, decision: 'deny' });
    await call;
  });

  test('entries that the node has not signed are not collected, and a rewritten log is told', async () => {
    await expect.poll(async () => (await fleet.cli('status')).code).toBe(0);
    const link = await as(credentialOf(b));
    const end = { seq: 1, hash: 'a'.repeat(64) };
    // Under the name of node-a the bus lets nobody else publish; under its own name a stranger's signature says nothing.
    const { sign } = await memberKeys();
    const batch = { lines: [], end, atMs: powers.now(), signature: sign('something') };
    await expect(link.request(subjects.audit('node-b'), toWire(batch), 1_500)).rejects.toThrow(/no answer/);
    await b[Symbol.asyncDispose]();
    // Whoever has the machine cuts the end off its log, and seals it anew.
    const database = new DatabaseSync(join(b.stateDir, 'audit.db'));
    database.exec('DELETE FROM audit; DELETE FROM head; DELETE FROM checkpoints');
    database.close();
    b = await fleet.node('node-b', { policy: ASK, stateDir: b.stateDir });
    await expect.poll(async () => (await fleet.cli('status')).stdout).toMatch(/record of node-b: broken: /);
    expect((await fleet.cli('status')).code).toBe(1);
  });

  test('a token works once, and its place goes to nobody who only knows what the bus knows', async () => {
    const stateDir = temporaryDir('joined');
    const twice = temporaryDir('twice');
    try {
      const { token, ended } = await fleet.invite('node-c');
      const { invitation, seed, ca, url, ...whole } = readToken(token);
      const thief = await memberKeys();
      const link = await connectBus({
        credential: { seed, ca, url },
        inbox: inboxOf('join', invitation),
        waits: false,
        limits,
        powers,
      });
      links.push(link);
      const guess = { ...whole, invitation, seed, ca, url, secret: 'f'.repeat(64) };
      const request = { key: thief.publicKey, proof: proofOf('member', guess, thief.publicKey) };
      const refusal = () =>
        link.request(subjects.join(invitation), toWire(request), 1_000).then(
          () => 'let in',
          (error: Error) => error.message,
        );
      // The bus drops the inviter's connection now and then while it reads the roster again: then nobody heard the guess.
      let said = await refusal();
      for (let tries = 1; said.startsWith('nobody listens') && tries < 20; tries += 1) {
        await setTimeout(250);
        said = await refusal();
      }
      expect(said).toContain('no answer');
      const joined = await fleet.joinBy(token, stateDir);
      expect(joined.code, joined.stderr).toBe(0);
      expect(await ended).toBe(0);
      const { invitations, members } = readFleet(fleet.folder, limits).roster;
      expect([invitations, members.some((it) => it.key === thief.publicKey)]).toEqual([[], false]);
      const again = await fleet.joinBy(token, twice);
      expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("can't be used")]);
      await expect(fleet.invite('node-c')).rejects.toThrow('is a member already');
    } finally {
      for (const it of [stateDir, twice]) removeTree(it);
    }
  });

  test('a revoked node is dropped by the bus, and goes on for itself', async () => {
    const credential = credentialOf(b);
    expect((await fleet.cli('revoke', 'node-b')).code).toBe(0);
    await expect
      .poll(() =>
        as(credential).then(
          () => 'in',
          () => 'out',
        ),
      )
      .toBe('out');
    expect(readFileSync(fleetFiles(fleet.folder).users, 'utf8')).not.toContain(
      (await memberKeys(credential.seed)).publicKey,
    );
    await using client = await b.connect();
    expect(await client.call('file_list', {})).toMatchObject({ success: true });
  });
});
