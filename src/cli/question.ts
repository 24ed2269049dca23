/** How a question looks on a terminal. All of it comes from agents, and none of it may drive the terminal or fake a line. */
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
const LINE_CHARS_MAX = 1000;

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
    ...block(JSON.stringify(input, null, 2) ?? ''),
    ...(effects.length > 0
      ? [title('Effects:'), ...effects.map((it) => `   ${it.kind.padEnd(7)} ${showLine(it.target)}`)]
      : []),
    ...(diff === undefined ? [] : [title('Changes:'), ...block(diff)]),
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

/** One line of other people's text, its control, direction and invisible characters made visible. */
export function showLine(text: string): string {
  const cut =
    text.length > LINE_CHARS_MAX ? `${text.slice(0, LINE_CHARS_MAX)} … ${text.length - LINE_CHARS_MAX} more` : text;
  return cut.replace(UNSAFE, (it) => `\\u{${(it.codePointAt(0) as number).toString(16)}}`);
}

/** Cc, Cf (direction, zero width), line and paragraph separators, lone surrogates, private use. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;

/** Several lines, set off so that none of them looks like one of ours. */
function block(text: string): string[] {
  const lines = text.split('\n');
  const told = lines.slice(0, LINES_MAX).map((it) => `   | ${showLine(it.replaceAll('\t', '  '))}`);
  return lines.length > LINES_MAX
    ? [...told, `   … ${lines.length - LINES_MAX} lines more; see \`ringfence approvals list --json\``]
    : told;
}
