/** What needs approval at terminals, and what does not. */
import { expect, test } from 'vitest';
import { openDaemon } from '../support/daemon.ts';

test('opening and typing are asked about, with what can not be known said; reading and closing are not', async () => {
  await using daemon = await openDaemon({ policy: 'extends: careful\nversion: 1\n' });
  await using client = await daemon.connect();
  await using operator = await daemon.connect({ role: 'operator' });
  const asked: { input: { action: string }; impact: { warnings: string[] } }[] = [];
  const answering = (async () => {
    for (let answered = 0; answered < 2; ) {
      const { approvals } = (await operator.request('approvals.list', {})) as { approvals: never[] };
      for (const it of approvals as ({ approvalId: string; callId: string } & (typeof asked)[0])[]) {
        asked.push(it);
        await operator.request('approvals.resolve', { approvalId: it.approvalId, decision: 'approve' });
        answered += 1;
      }
    }
  })();
  const call = async (input: object) => {
    const result = await client.call('terminal_interactive', input as never);
    if (!result.success) throw new Error(result.error.message);
    return result.data as { sessionId: string; output: string };
  };
  const { sessionId } = await call({ action: 'open', waitMs: 10_000 });
  expect((await call({ action: 'write', sessionId, data: 'echo by-a-person\r', waitMs: 10_000 })).output).toContain(
    'by-a-person',
  );
  await answering;
  for (const more of [
    { action: 'read' },
    { action: 'resize', cols: 90, rows: 20 },
    { action: 'signal', signal: 'INT' },
    { action: 'close' },
  ])
    await call({ sessionId, ...more });
  expect(asked.map(({ input }) => input.action)).toEqual(['open', 'write']);
  for (const { impact } of asked) expect(impact.warnings.join()).toMatch(/known/);
});
