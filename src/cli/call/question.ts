/** Formats a question for the terminal. Its content comes from agents and must neither control the terminal nor fake a line. */
import { join } from 'node:path';
import { showBlock, showLine } from '../../base/text/shown-text.ts';
import {
  type Approval,
  coverageOf,
  type ImpactLevel,
  opensForSession,
  rememberFor,
  rememberProjectFor,
  rememberToolFor,
} from '../../store/approvals/approval.ts';

export interface QuestionStyle {
  readonly color: boolean;
}

const COLORS: Record<ImpactLevel, number> = { low: 32, medium: 33, high: 31 };
const RULE = '='.repeat(60);
/** Most lines of parameters or of a diff; the impact and the options must stay visible. */
const LINES_MAX = 120;

/** Most characters of a question in a line of the list; `watch` shows the rest. */
const ASKED_CHARS_MAX = 160;

/** A question in one line: id, impact, age, call, folder and principal. */
export function toLine(approval: Approval, nowMs: number): string {
  const { approvalId, impact, tool, input, effects, workspace, principal, requestedAt } = approval;
  const { command, cwd = '.' } = input as { command?: unknown; cwd?: unknown };
  const paths = effects.map(({ kind, target }) => `${kind} ${target}`).join(', ');
  const asked = typeof command === 'string' ? command : paths || JSON.stringify(input);
  const what = `${tool}: ${asked}`;
  const shownText = what.length <= ASKED_CHARS_MAX ? what : `${what.slice(0, ASKED_CHARS_MAX)}…`;
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(requestedAt)) / 1000));
  const age = seconds < 120 ? `${seconds}s` : `${Math.round(seconds / 60)}m`;
  const folder = typeof cwd === 'string' ? join(workspace, cwd).replace(/(.)\/$/, '$1') : workspace;
  return showLine(
    `${approvalId}  ${impact.level.padEnd(6)}  ${age.padStart(4)}  ${shownText}  in ${folder} by ${principal}`,
  );
}

/** The calls by which a call came about, the nearest first. */
const toChain = (parents: Approval['parents']): string =>
  parents
    .map(({ tool, callId }) => `${tool} ${callId}`)
    .toReversed()
    .join(', made by ');

const DENIED = {
  exact: 'exactly this call',
  tool: 'all calls of this tool',
  rule: 'all calls that the rule asks about',
  door: 'all hosts of this domain',
};

/** The complete question without the prompt: tool, parameters, effects, diff, and finally the impact, so that it is not scrolled away. */
export function showApproval(approval: Approval, { color }: QuestionStyle): string {
  const { tool, reason, rule, workspace, principal, input, effects, diff, impact, costUsd, expiresAt } = approval;
  const paint = (code: number, text: string) => (color ? `\x1b[${code}m${text}\x1b[0m` : text);
  const title = (text: string) => `\n${paint(1, text)}`;
  const { match } = rememberFor(approval);
  const isPath = opensForSession(approval);
  const covers = coverageOf(approval);
  const forProject = rememberProjectFor(approval) && covers;
  const coversTool = rememberToolFor(approval) && approval.remember.tool;
  return [
    `\n${RULE}`,
    paint(1, `Tool: ${showLine(tool)}`),
    `${showLine(reason)} (rule ${showLine(rule)})`,
    `${showLine(principal)} in ${showLine(workspace)}, ${showLine(approval.approvalId)}`,
    ...(approval.parents.length > 0 ? [`Made by ${showLine(toChain(approval.parents))}`] : []),
    RULE,
    title('Parameters:'),
    ...showBlock(JSON.stringify(input, null, 2) ?? '', LINES_MAX),
    ...(effects.length > 0
      ? [title('Effects:'), ...effects.map((it) => `   ${it.kind.padEnd(7)} ${showLine(it.target)}`)]
      : []),
    ...(diff === undefined ? [] : [title('Changes:'), ...showBlock(diff, LINES_MAX)]),
    title(`Impact: ${paint(COLORS[impact.level], impact.level.toUpperCase())}`),
    `   ${showLine(impact.description)}`,
    ...(impact.warnings.length > 0 ? [title('Warnings:'), ...impact.warnings.map((it) => `   ${showLine(it)}`)] : []),
    ...(costUsd === undefined ? [] : [`\nCost: about $${costUsd.toFixed(4)}`]),
    `\nExpires: ${showLine(expiresAt)}`,
    title('Options:'),
    `  y  - Approve${isPath ? ' for this session' : ''}`,
    '  n  - Deny (the agent gets to read what you type after the n)',
    ...(covers === undefined || isPath ? [] : [`  ya - Approve and remember for this session (${showLine(covers)})`]),
    ...(coversTool === undefined ? [] : [`  yt - Approve and remember for this session (${showLine(coversTool)})`]),
    ...(forProject === undefined ? [] : [`  yp - Approve and remember for this project (${showLine(forProject)})`]),
    `  na - Deny and remember for this session (${isPath ? 'this path' : DENIED[match]})`,
  ].join('\n');
}
