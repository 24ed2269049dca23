/** How a question looks on a terminal. All of it comes from agents, and none of it may drive the terminal or fake a line. */
import { showBlock, showLine } from '../shown-text.ts';
import type { Approval, ImpactLevel, Remember } from '../store/approval.ts';

export interface QuestionStyle {
  readonly color: boolean;
  /** What `ya` and `na` stand for. */
  readonly remembers: Remember['match'];
}

const COLORS: Record<ImpactLevel, number> = { low: 32, medium: 33, high: 31 };
const RULE = '='.repeat(60);
/** Lines of parameters or of a diff; the impact and the options must stay in sight. */
const LINES_MAX = 120;

/** The whole question but the prompt: what, parameters, effects, diff, and last the impact, so that it is not scrolled away. */
export function showApproval(approval: Approval, { color, remembers }: QuestionStyle): string {
  const { tool, reason, rule, workspace, principal, input, effects, diff, impact, costUsd, expiresAt } = approval;
  const paint = (code: number, text: string) => (color ? `\x1b[${code}m${text}\x1b[0m` : text);
  const title = (text: string) => `\n${paint(1, text)}`;
  const calls = remembers === 'tool' ? 'calls of this tool with at most this impact' : 'this very call';
  return [
    `\n${RULE}`,
    paint(1, `Tool: ${showLine(tool)}`),
    `${showLine(reason)} (rule ${showLine(rule)})`,
    `${showLine(principal)} in ${showLine(workspace)}, ${showLine(approval.approvalId)}`,
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
    '  y  - Approve',
    '  n  - Deny (what you type after it reaches the agent)',
    `  ya - Approve and remember for this session (${calls})`,
    `  na - Deny and remember for this session (${remembers === 'tool' ? 'all calls of this tool' : calls})`,
  ].join('\n');
}
