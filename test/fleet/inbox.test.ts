/** The operator's inbox over nodes of which one was taken over, or does not answer. */
import { afterAll, expect, test } from 'vitest';
import { FleetInbox } from '../../src/cli/fleet/inbox.ts';
import type { Nodes } from '../../src/cli/fleet/nodes.ts';
import { FleetError } from '../../src/fleet/fleet-error.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';

const approval: Approval = {
  approvalId: 'a_1',
  callId: 'c',
  sessionId: 's',
  principal: 'p',
  client: 'agent 1',
  parents: [],
  workspace: '/w',
  cwd: '.',
  tool: 'file_write',
  input: { path: 'x' },
  effects: [],
  impact: { level: 'low', description: 'Writes', warnings: [] },
  rememberMaxMs: 0,
  rule: 'r',
  reason: 'Why',
  requestedAt: '2026-01-01T00:00:00.000Z',
  expiresAt: '2026-01-01T00:05:00.000Z',
  digest: 'd',
  remember: {},
};

const hearers = new Map<string, (message: { subject: string }) => void>();
/** Nodes whose answers to the question for questions are given. */
const inboxOf = (answers: Readonly<Record<string, () => Promise<unknown>>>) => {
  const problems = new Map<string, string>();
  const nodes = {
    names: Object.keys(answers),
    order: (node: string) => (answers[node] as () => Promise<unknown>)(),
    link: {
      subscribe: (subject: string, hear: (message: { subject: string }) => void) => {
        hearers.set(subject, hear);
        return { [Symbol.dispose]: () => void hearers.delete(subject) };
      },
    },
  };
  const tell = (node: string, problem?: string) => void (problem !== undefined && problems.set(node, problem));
  return { inbox: new FleetInbox(nodes as unknown as Nodes, tell), problems };
};
afterAll(() => expect(hearers.size).toBe(0));

test.each([
  ['no list', { questions: 7 }],
  ['a question without its parts', { questions: [{ approval: { approvalId: 'a_1' } }] }],
  ['nothing', { questions: [null] }],
  ['more than a question', { questions: [{ approval, more: true }] }],
])('a node that sends %s costs only its own questions', async (_, answer) => {
  const { inbox, problems } = inboxOf({
    'node-a': async () => answer,
    'node-b': async () => ({ questions: [{ approval }] }),
  });
  const { approvals } = (await inbox.request('approvals.list', {})) as { approvals: Approval[] };
  expect(approvals.map((it) => it.approvalId)).toEqual(['node-b/a_1']);
  expect([...problems]).toEqual([['node-a', 'node-a sent something that is no question']]);
});

test('a node that does not answer holds up the news of no other, and is asked once at a time', async () => {
  let asked = 0;
  const silent = Promise.withResolvers<unknown>();
  const { inbox } = inboxOf({
    'node-a': () => {
      asked += 1;
      return silent.promise;
    },
    'node-b': async () => ({ questions: [{ approval }] }),
  });
  const news: unknown[] = [];
  using _ = inbox.watch((it) => news.push(it.method));
  const hear = hearers.get('rf.ap.*');
  for (const node of ['node-a', 'node-a', 'node-a', 'node-b', 'node-unknown']) hear?.({ subject: `rf.ap.${node}` });
  await expect.poll(() => news).toEqual(['approval.requested']);
  expect(asked).toBe(1);
  silent.reject(new FleetError('node-a did not answer'));
  await expect.poll(() => asked).toBe(2);
});
