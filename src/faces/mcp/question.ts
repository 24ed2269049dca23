/** A question about a call as a form that the client shows to its person, and the meaning of the person's answer. */
import type { ElicitRequestFormParams } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { showBlock, showLine } from '../../base/text/shown-text.ts';
import {
  type Approval,
  coverageOf,
  opensForSession,
  type RememberScope,
  type Resolution,
  rememberFor,
  rememberProjectFor,
} from '../../store/approvals/approval.ts';

/** Most lines of the input and of the diff, so that the dialog fits on one screen. */
const LINES_MAX = 40;
const NOTE_CHARS_MAX = 1_000;

const DECISIONS = ['allow_once', 'allow_session', 'allow_project', 'deny', 'deny_session'] as const;
const NAMES: Record<(typeof DECISIONS)[number], string> = {
  allow_once: 'Allow once',
  allow_session: 'Allow for this session',
  allow_project: 'Allow for this project',
  deny: 'Deny',
  deny_session: 'Deny for this session',
};

/** The complete question as plain text, with the form. */
export function toForm(approval: Approval): ElicitRequestFormParams {
  const { tool, reason, rule, principal, workspace, input, effects, diff, impact, approvalId } = approval;
  const covers = coverageOf(approval);
  const offered = DECISIONS.filter((it) => isOffered(it, approval));
  const message = [
    `May ${showLine(tool)} run? ${showLine(reason)} (rule ${showLine(rule)})`,
    `${showLine(principal)} in ${showLine(workspace)}, approval ${showLine(approvalId)}`,
    'Parameters:',
    ...showBlock(JSON.stringify(input, null, 2) ?? '', LINES_MAX),
    ...effects.map((it) => `   ${it.kind} ${showLine(it.target)}`),
    ...(diff === undefined ? [] : ['Changes:', ...showBlock(diff, LINES_MAX)]),
    `Impact: ${impact.level.toUpperCase()}. ${showLine(impact.description)}`,
    ...impact.warnings.map((it) => `   ${showLine(it)}`),
  ].join('\n');
  return {
    mode: 'form',
    message,
    requestedSchema: {
      type: 'object',
      properties: {
        decision: {
          type: 'string',
          title: 'Decision',
          ...(covers !== undefined && { description: `"Allow for this session" covers ${showLine(covers)}.` }),
          enum: offered,
          enumNames: offered.map((it) => NAMES[it]),
        },
        note: { type: 'string', title: 'Note', description: 'Reaches the agent.', maxLength: NOTE_CHARS_MAX },
      },
      required: ['decision'],
    },
  };
}

const content = z.object({ decision: z.enum(DECISIONS), note: z.string().max(NOTE_CHARS_MAX).optional() });

function isOffered(decision: (typeof DECISIONS)[number], approval: Approval): boolean {
  // A yes to a path is one for the session.
  if (decision === 'allow_once') return !opensForSession(approval);
  if (decision === 'allow_session') return coverageOf(approval) !== undefined;
  if (decision === 'allow_project') return rememberProjectFor(approval) !== undefined;
  return decision !== 'deny_session' || approval.door !== undefined;
}

/** What the answer is to be remembered for; undefined for an answer that counts once. */
function rememberedFor(decision: (typeof DECISIONS)[number], approval: Approval): RememberScope | undefined {
  if (!isOffered(decision, approval)) return undefined;
  if (decision === 'allow_project') return rememberProjectFor(approval);
  return decision.endsWith('_session') ? rememberFor(approval) : undefined;
}

/** The person's decision; declining, closing the dialog or an invalid answer counts as no. */
export function toResolution(
  answer: { readonly action: string; readonly content?: unknown },
  approval: Approval,
): Omit<Resolution, 'by'> {
  const filled = answer.action === 'accept' ? content.safeParse(answer.content) : undefined;
  const { decision = 'deny', note } = filled?.data ?? {};
  const feedback = note?.trim();
  const remember = rememberedFor(decision, approval);
  return {
    decision: decision.startsWith('deny') ? 'deny' : 'approve',
    ...(feedback && { feedback }),
    remember,
  };
}
