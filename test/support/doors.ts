/** A person who answers at the doors of paths and services. */
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { until } from './daemon.ts';

/** Has a session ask for a path or a service, and the operator answer. */
export async function answerAccess(
  wanted: { path: string } | { service: number },
  answer: object,
  { by, operator }: { by: Client; operator: Client },
) {
  const call = by.call('access_request', wanted);
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
