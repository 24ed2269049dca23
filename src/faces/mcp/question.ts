/** A question about a call as a form that the client shows to its person, and the meaning of the person's answer. */
import type { ElicitRequestFormParams } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { showBlock, showLine } from '../../base/text/shown-text.ts';
import { type Approval, coverageOf, type Resolution } from '../../store/approvals/approval.ts';
import {
  type Choice,
  choicesOf,
  factsOf,
  leftOf,
  restOf,
  titleText,
  whoOf,
} from '../../store/approvals/question-words.ts';

/** Most lines of a command, of other parameters and of a diff, so that the dialog fits on one screen. */
const LINES_MAX = 40;
const NOTE_CHARS_MAX = 1_000;

const DECISIONS = ['allow_once', 'allow_session', 'allow_project', 'deny', 'deny_session'] as const;
type Decision = (typeof DECISIONS)[number];

/** The member of the form for each key of the terminal and the panel, and its words. */
const OF_KEY: Readonly<Record<Choice['key'], readonly [Decision, string]>> = {
  y: ['allow_once', 'Allow once'],
  s: ['allow_session', 'Allow for this session'],
  p: ['allow_project', 'Allow for this project'],
  n: ['deny', 'Deny'],
  N: ['deny_session', 'Deny for this session'],
};

/** What the form offers, in the order of all faces. A yes to a path is one for the session. */
function offeredFor(approval: Approval): { decision: Decision; name: string; choice: Choice }[] {
  return choicesOf(approval).map((choice) => {
    const isSession = choice.key === 'y' && choice.label === 'session';
    const [decision, name] = OF_KEY[isSession ? 's' : choice.key];
    return { decision, name, choice };
  });
}

/** The question as plain text, in the layout of the terminal and the panel, with the form. */
export function toForm(approval: Approval, nowMs: number): ElicitRequestFormParams {
  const { diff, approvalId } = approval;
  const covers = coverageOf(approval);
  const offered = offeredFor(approval);
  const [title = '', ...lines] = titleText(approval).split('\n');
  const rest = Object.entries(restOf(approval)).map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const blocks = [lines, rest, ...(diff === undefined ? [] : [[diff]])].filter((it) => it.length > 0);
  const message = [
    showLine(title),
    `${showLine(whoOf(approval))} · ${showLine(approvalId)} · ${leftOf(approval, nowMs)}`,
    ...factsOf(approval).map(({ kind, text }) => `${kind === 'warn' ? '! ' : '- '}${showLine(text)}`),
    ...blocks.flatMap((it) => showBlock(it.join('\n'), LINES_MAX)),
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
          enum: offered.map(({ decision }) => decision),
          enumNames: offered.map(({ name }) => name),
        },
        note: { type: 'string', title: 'Note', description: 'Reaches the agent.', maxLength: NOTE_CHARS_MAX },
      },
      required: ['decision'],
    },
  };
}

const content = z.object({ decision: z.enum(DECISIONS), note: z.string().max(NOTE_CHARS_MAX).optional() });

/** The person's decision; declining, closing the dialog, an invalid answer or one that was not offered counts as no. */
export function toResolution(
  answer: { readonly action: string; readonly content?: unknown },
  approval: Approval,
): Omit<Resolution, 'by'> {
  const filled = answer.action === 'accept' ? content.safeParse(answer.content) : undefined;
  const { decision, note } = filled?.data ?? {};
  const choice = offeredFor(approval).find((it) => it.decision === decision)?.choice;
  const feedback = note?.trim();
  return { decision: choice?.decision ?? 'deny', ...(feedback && { feedback }), remember: choice?.remember };
}
