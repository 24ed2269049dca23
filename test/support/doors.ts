/** A person who answers at the doors of paths. */
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { until } from './daemon.ts';

/** Has a session ask for a path, and the operator answer. */
export async function answerPath(path: string, answer: object, { by, operator }: { by: Client; operator: Client }) {
  const call = by.call('access_request', { path });
  let asked: Approval | undefined;
  await until(async () => {
    const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
    asked = approvals.find((it) => it.tool === 'access_request');
    return asked !== undefined;
  });
  const { approvalId } = asked as Approval;
  await operator.request('approvals.resolve', { approvalId, ...answer });
  return { asked: asked as Approval, result: await call };
}
