/** A fleet of real daemons on a real bus: joining, watching, answering, stopping, collecting records. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestDaemon } from '../support/daemon.ts';
import { noBus, TestFleet } from '../support/fleet.ts';

const ASK = `
rules:
  - { id: notes, match: { write: "notes/**" }, decision: ask, reason: Notes are the person's. }
`;
const note = (content: string) => ['file_write', { path: 'notes/a.md', content }] as const;

interface NodeLine {
  readonly name: string;
  readonly here: boolean;
  readonly labels: string[];
  readonly paused?: boolean;
  readonly draining?: boolean;
  readonly questions?: number;
}

describe.skipIf(noBus !== undefined)(`a fleet${noBus ? ` (${noBus})` : ''}`, () => {
  let fleet: TestFleet;
  let a: TestDaemon;
  let b: TestDaemon;
  beforeAll(async () => {
    fleet = await TestFleet.start();
    a = await fleet.node('node-a', { policy: ASK }, '--label', 'gpu');
    b = await fleet.node('node-b', { policy: ASK });
  });
  afterAll(() => fleet?.[Symbol.asyncDispose]());

  const nodes = async () => Object.fromEntries((await fleet.json<NodeLine[]>('nodes')).map((it) => [it.name, it]));
  const questions = () => fleet.json<{ approvalId: string }[]>('approvals list');

  test('machines that joined are seen with the labels that the operator gave them', async () => {
    await expect.poll(nodes).toMatchObject({
      'node-a': { here: true, labels: ['gpu'], hasPolicy: true },
      'node-b': { here: true, labels: [] },
    });
    expect(existsSync(join(a.stateDir, 'fleet/credential.json'))).toBe(true);
    // The private key of a node is known to nobody else.
    const { seed } = JSON.parse(readFileSync(join(a.stateDir, 'fleet/credential.json'), 'utf8')) as { seed: string };
    expect(readFileSync(join(fleet.folder, 'operator/roster.json'), 'utf8')).not.toContain(seed);
  });

  test('a question of any node is answered in one place, and the answer counts at the node', async () => {
    await using client = await a.connect();
    const call = client.call(...note('asked'));
    await expect.poll(questions).toHaveLength(1);
    const [{ approvalId } = { approvalId: '' }] = await questions();
    expect(approvalId).toMatch(/^node-a\/a_/);
    const answered = await fleet.cli('approvals approve', approvalId);
    expect(answered.code, answered.stderr).toBe(0);
    expect(await call).toMatchObject({ success: true });
    await using operator = await a.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { kind: 'approval', limit: 5 })) as {
      entries: object[];
    };
    expect(entries).toContainEqual(
      expect.objectContaining({ detail: expect.objectContaining({ decision: 'approve', by: 'operator for fleet' }) }),
    );
  });

  test('a denial reaches the agent with its reason', async () => {
    await using client = await b.connect();
    const call = client.call(...note('denied'));
    await expect.poll(questions).toHaveLength(1);
    const [{ approvalId } = { approvalId: '' }] = await questions();
    await fleet.cli('approvals deny', approvalId, '--feedback', 'not today');
    expect(await call).toMatchObject({ success: false, error: { code: 'APPROVAL_DENIED' } });
    expect(JSON.stringify(await call)).toContain('not today');
  });

  test('kill ends the calls of a node and lets none begin until resume', async () => {
    await using client = await a.connect();
    const call = client.call(...note('never'));
    await expect.poll(questions).toHaveLength(1);
    const killed = await fleet.cli('kill', 'node-a');
    expect(killed.code, killed.stderr).toBe(0);
    expect(await call).toMatchObject({ error: { code: 'CANCELLED' } });
    await expect.poll(nodes).toMatchObject({ 'node-a': { paused: true }, 'node-b': { paused: false } });
    expect((await fleet.cli('resume', '--all')).code).toBe(0);
    expect(await client.call('file_list', {})).toMatchObject({ success: true });
  });

  test('a drained node says so, also after a restart of its link', async () => {
    expect((await fleet.cli('drain', 'node-b')).code).toBe(0);
    await expect.poll(nodes).toMatchObject({ 'node-b': { draining: true }, 'node-a': { draining: false } });
    expect((await fleet.cli('undrain', 'node-b')).code).toBe(0);
    await expect.poll(nodes).toMatchObject({ 'node-b': { draining: false } });
  });

  test('the records of all nodes come to the hub, which verifies them', async () => {
    await expect
      .poll(async () => (await fleet.cli('status')).stdout)
      .toMatch(
        /2 of 2 nodes are here; 0 questions wait\nrecord of node-a: whole, \d+ entries\nrecord of node-b: whole/,
      );
    expect((await fleet.cli('status')).code).toBe(0);
  });
});
