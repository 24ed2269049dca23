/** The shape of a remembered answer. */
import * as z from 'zod';

export const level = z.enum(['low', 'medium', 'high']);
export const doorTarget = z.strictObject({ kind: z.enum(['host', 'upload', 'secret', 'path']), target: z.string() });

const count = () => z.int().nonnegative();
const texts = () => z.array(z.string());

export const grant = z.strictObject({
  door: doorTarget.optional(),
  project: z.string().optional(),
  projectIs: z.string().optional(),
  grantId: z.string(),
  decision: z.enum(['approve', 'deny']),
  scope: z.enum(['session', 'project', 'always']),
  match: z.enum(['exact', 'tool', 'rule', 'door']),
  feedback: z.string().optional(),
  approvalId: z.string(),
  by: z.string(),
  grantedAtMs: count(),
  expiresAtMs: count(),
  sessionId: z.string(),
  principal: z.string(),
  delegated: z.literal(true).optional(),
  workspace: z.string(),
  tool: z.string(),
  subjectHash: z.string(),
  rule: z.string(),
  askingRules: texts(),
  level,
  unknown: z.boolean(),
  reach: z.enum(['reads', 'modifies', 'runs', 'remote']).optional(),
  programs: texts().optional(),
  policyVersion: z.string(),
});
