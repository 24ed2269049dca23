/** zod schemas of questions to a person and of remembered answers: what docs/protocol-reference.md has, and what is stored. */
import * as z from 'zod';
import { count, effect, moment, texts, undo } from '../../base/result-shapes.ts';

export const IMPACTS = ['low', 'medium', 'high'] as const;
/** Kinds of command effects, from least to greatest reach. */
export const REACHES = ['reads', 'modifies', 'runs', 'remote'] as const;

const level = z.enum(IMPACTS);
/** How much harm a call may do, for a person who has to decide in seconds: one sentence, and points to check, bounded in number and length. */
export const impact = z.strictObject({ level, description: z.string(), warnings: texts() });

/**
 * What a question of a door is about. `upload`: more is to be sent to a host that is open. `secret`: a file that the policy hides.
 * `path`: a folder outside of the workspace, which commands may read. `signature`: a commit that is to be signed. `service`: a program that
 * listens on this machine's loopback. `target`: `host:port`, the host `*` is all hosts; a path from the workspace's root, or an absolute
 * one; the name of a key; `127.0.0.1:port PROGRAM of OWNER`.
 */
export const doorTarget = z.strictObject({
  kind: z.enum(['host', 'upload', 'secret', 'path', 'signature', 'service']),
  target: z.string(),
});

/** The facts that remembered answers are matched against. */
export const grantFacts = z.strictObject({
  door: doorTarget.optional().describe('Set for a question of a door, which only answers of doors cover.'),
  project: z.string().optional().describe("The workspace's real path, if an answer may be remembered for it."),
  projectIs: z.string().optional().describe('The identity of the folder there.'),
  sessionId: z.string(),
  principal: z.string(),
  accountId: z
    .string()
    .optional()
    .describe('Of a delegated session: the outermost one; a no of its person holds below it, too.'),
  delegated: z.literal(true).optional().describe('A yes to the calls of the session above covers none of these.'),
  workspace: z.string(),
  tool: z.string(),
  subjectHash: z.string().describe('Hash of tool and canonical input.'),
  rule: z.string().describe('The rule that asked; one of `askingRules`.'),
  askingRules: texts().describe('All rules that ask about the call.'),
  level,
  unknown: z.boolean().describe('Whether parts of the call can not be known in advance.'),
  reach: z.enum(REACHES).optional().describe('The furthest of its commands.'),
  programs: texts().optional().describe('Programs that the call runs, by real path or as written; sorted.'),
  policyVersion: z.string(),
});

/** A remembered answer that applies to further calls. */
export const grant = grantFacts.extend({
  grantId: z.string(),
  decision: z.enum(['approve', 'deny']),
  scope: z.enum(['session', 'project', 'always']),
  match: z.enum(['exact', 'tool', 'rule', 'door']),
  feedback: z.string().optional(),
  approvalId: z.string().describe('The approval that it was given for.'),
  by: z.string(),
  grantedAtMs: count(),
  expiresAtMs: count(),
});

export const shownEffect = effect.extend({ replaces: z.literal(true).optional().describe('Set if a file is there.') });

/** The parts of a question that may be long. */
export const wholeQuestion = z.strictObject({
  input: z.unknown().describe('Without secrets.'),
  effects: z.array(shownEffect).describe('Those that destroy most come first.'),
  diff: z.string().optional(),
});

/** A call that waits for a person, as shown to people. Secrets are redacted everywhere. */
export const approval = z.strictObject({
  approvalId: z.string(),
  callId: z.string(),
  sessionId: z.string(),
  principal: z.string(),
  client: z.string().describe('Name and version that the agent gave.'),
  parents: z.array(z.strictObject({ callId: z.string(), tool: z.string() })).describe('The outermost call first.'),
  workspace: z.string(),
  cwd: z.string().describe('Relative to the workspace.'),
  tool: z.string(),
  input: z.unknown().describe('Without secrets; long texts are cut.'),
  effects: z.array(shownEffect),
  impact,
  costUsd: z.number().optional(),
  estimatedMs: z.number().optional().describe('How long calls of the tool took on average in the last day.'),
  diff: z.string().optional(),
  truncated: z.literal(true).optional().describe('Set if parts were cut; `approvals.get` has them.'),
  undo: undo.optional().describe('Absent if the call changes nothing.'),
  rememberMaxMs: count().describe('0 forbids remembering.'),
  rule: z.string(),
  reason: z.string(),
  requestedAt: moment(),
  expiresAt: moment(),
  digest: z.string().describe('Changes with anything that is shown.'),
  door: doorTarget
    .extend({ program: z.string().optional().describe('Path of the executable, as the kernel knows it.') })
    .optional()
    .describe('What a running call waits for.'),
  project: z.string().optional().describe('The workspace, if an answer may be remembered for it.'),
  remember: z
    .strictObject({ exact: z.string().optional(), tool: z.string().optional(), door: z.string().optional() })
    .describe('What a remembered approval would cover, in words, for each offered way.'),
});
