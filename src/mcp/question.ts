/** A question about a call as a form that the client shows to its person, and the meaning of the person's answer. */
import type { ElicitRequestFormParams } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { type Approval, type Resolution, rememberFor } from '../store/approvals/approval.ts';
import { showBlock, showLine } from '../text/shown-text.ts';

/** Most lines of the input and of the diff, so that the dialog fits on one screen. */
const LINES_MAX = 40;
const NOTE_CHARS_MAX = 1_000;

const DECISIONS = ['allow_once', 'allow_session', 'deny'] as const;

/** The complete question as plain text, with the form. */
export function toForm(approval: Approval): ElicitRequestFormParams {
  const { tool, reason, rule, principal, workspace, input, effects, diff, impact, approvalId } = approval;
  const covers = approval.remember[rememberFor(approval).match === 'tool' ? 'tool' : 'exact'];
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
          ...(covers === undefined
            ? { enum: ['allow_once', 'deny'], enumNames: ['Allow once', 'Deny'] }
            : {
                description: `"Allow for this session" covers ${showLine(covers)}.`,
                enum: [...DECISIONS],
                enumNames: ['Allow once', 'Allow for this session', 'Deny'],
              }),
        },
        note: { type: 'string', title: 'Note', description: 'Reaches the agent.', maxLength: NOTE_CHARS_MAX },
      },
      required: ['decision'],
    },
  };
}

const content = z.object({ decision: z.enum(DECISIONS), note: z.string().max(NOTE_CHARS_MAX).optional() });

/** The person's decision; declining, closing the dialog or an invalid answer counts as no. */
export function toResolution(
  answer: { readonly action: string; readonly content?: unknown },
  approval: Approval,
): Omit<Resolution, 'by'> {
  const filled = answer.action === 'accept' ? content.safeParse(answer.content) : undefined;
  const { decision = 'deny', note } = filled?.data ?? {};
  const feedback = note?.trim();
  return {
    decision: decision === 'deny' ? 'deny' : 'approve',
    ...(feedback && { feedback }),
    ...(decision === 'allow_session' && approval.remember.exact !== undefined && { remember: rememberFor(approval) }),
  };
}
