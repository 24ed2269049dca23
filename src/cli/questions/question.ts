/** Formats a question for the terminal. Its content comes from agents and must neither control the terminal nor fake a line. */
import { styleText } from 'node:util';
import { charactersIn, showBlock, showLine } from '../../base/text/shown-text.ts';
import { type Approval, coverageOf, rememberProjectFor, rememberToolFor } from '../../store/approvals/approval.ts';
import {
  choicesOf,
  commandOf,
  factsOf,
  leftOf,
  restOf,
  titleOf,
  titleText,
  whoOf,
} from '../../store/approvals/question-words.ts';
import { shortId } from '../ids.ts';

export interface QuestionStyle {
  readonly color: boolean;
  readonly columns?: number | undefined;
  readonly nowMs: number;
}

/** Columns beyond which a line is hard to read. */
const COLUMNS_MAX = 100;
const COLUMNS = 80;
const INDENT = '  ';
/** Most lines of a diff, of a command and of its other parameters, so that the answers stay in sight. */
const BLOCK_MAX = 40;
const REST_MAX = 12;
/** Most lines of each part that `e` shows. */
const WHOLE_MAX = 400;

/** A question in one line of a list: id, how long is left, what happens, who asks and where. */
export function toLine(approval: Approval, nowMs: number): string {
  const what = titleText(approval).split('\n')[0] as string;
  return showLine(
    `${approval.approvalId}  ${leftOf(approval, nowMs).padStart(11)}  ${what.length > 160 ? `${what.slice(0, 160)}…` : what}  ${whoOf(approval)} by ${approval.principal}`,
  );
}

type Style = Parameters<typeof styleText>[0];
type Paint = (style: Style, text: string) => string;

/** The question in at most ten lines, beside a diff or a command of several lines. */
export function showQuestion(approval: Approval, { color, columns = COLUMNS, nowMs }: QuestionStyle): string {
  const paint: Paint = (style, text) => (color ? styleText(style, text, { validateStream: false }) : text);
  const width = Math.min(columns || COLUMNS, COLUMNS_MAX);
  const left = leftOf(approval, nowMs);
  const { verb, before, heavy, after } = titleOf(approval);
  const [line = '', ...more] = heavy.split('\n');
  const head = `${verb && `${showLine(verb)} `}${showLine(before)}`;
  const title = `${INDENT}${head}${paint('bold', showLine(line))}${showLine(after)}`;
  const taken = INDENT.length + charactersIn(`${head}${showLine(line)}${showLine(after)}`);
  const room = width - taken - charactersIn(left);
  const isBeside = room >= 2;
  const who = [showLine(whoOf(approval)), showLine(shortId(approval.approvalId)), ...(isBeside ? [] : [left])];
  const soft = (text: string) => `${INDENT}${paint('dim', text)}`;
  return [
    '',
    isBeside ? `${title}${' '.repeat(room)}${paint('dim', left)}` : title,
    ...(more.length > 0 ? showBlock(more.join('\n'), BLOCK_MAX) : []),
    soft(who.join(' · ')),
    '',
    ...factsOf(approval).map(({ kind, text }) =>
      kind === 'warn' ? `${INDENT}${paint(['yellow', 'bold'], `! ${showLine(text)}`)}` : `${INDENT}${showLine(text)}`,
    ),
    ...restLines(approval, REST_MAX),
    ...diffLines(approval, paint),
    '',
    `${INDENT}${keysOf(approval, paint)}`,
  ].join('\n');
}

const keysOf = (approval: Approval, paint: Paint): string =>
  [...choicesOf(approval), { key: 'e', label: 'explain' }]
    .map(({ key, label }) => `${paint('bold', key)} ${showLine(label)}`)
    .join('   ');

/** The parameters that the title leaves out, one a line. */
function restLines(approval: Approval, linesMax: number): string[] {
  const rest = Object.entries(restOf(approval));
  const lines = rest.flatMap(([name, value]) =>
    `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`.split('\n'),
  );
  return lines.length === 0 ? [] : showBlock(lines.join('\n'), linesMax);
}

function diffLines({ diff }: Approval, paint: Paint): string[] {
  if (diff === undefined) return [];
  const colorOf = (it: string): Style | undefined => (it[0] === '+' ? 'green' : it[0] === '-' ? 'red' : undefined);
  return showBlock(diff, BLOCK_MAX).map((it) => {
    const style = colorOf(it.slice('   | '.length));
    return style ? paint(style, it) : it;
  });
}

/** The calls by which a call came about, the nearest first. */
const toChain = (parents: Approval['parents']): string =>
  parents
    .map(({ tool, callId }) => `${tool} ${callId}`)
    .toReversed()
    .join(', made by ');

/** All that is known of a question: what `e` shows. */
export function explainQuestion(approval: Approval, { color }: Pick<QuestionStyle, 'color'>): string {
  const { tool, reason, rule, workspace, cwd, principal, client, input, effects, impact, expiresAt } = approval;
  const title = (text: string) => (color ? styleText('bold', text, { validateStream: false }) : text);
  const covers = coverageOf(approval);
  const whole = rememberToolFor(approval) && approval.remember.tool;
  const command = commandOf(approval);
  return [
    '',
    title(`${showLine(tool)}, asked by rule ${showLine(rule)}`),
    `   ${showLine(reason)}`,
    `   ${showLine(`${client} as ${principal} in ${workspace}${cwd === '.' ? '' : `, folder ${cwd}`}`)}`,
    `   ${showLine(`${approval.approvalId}, call ${approval.callId}, until ${expiresAt}`)}`,
    ...(approval.parents.length > 0 ? [`   made by ${showLine(toChain(approval.parents))}`] : []),
    title('Parameters'),
    ...showBlock(JSON.stringify(input, null, 2) ?? '', WHOLE_MAX),
    ...(command?.includes('\n') ? [title('Command'), ...showBlock(command, WHOLE_MAX)] : []),
    ...(effects.length > 0
      ? [
          title('Effects'),
          ...effects.map((it) => `   ${(it.replaces ? 'replace' : it.kind).padEnd(7)} ${showLine(it.target)}`),
        ]
      : []),
    ...(approval.diff === undefined ? [] : [title('Changes'), ...showBlock(approval.diff, WHOLE_MAX)]),
    title(`Impact ${impact.level}`),
    ...[impact.description, ...impact.warnings].map((it) => `   ${showLine(it)}`),
    title('What an answer covers'),
    ...(covers === undefined ? [] : [`   s   this session: ${showLine(covers)}`]),
    ...(whole === undefined ? [] : [`   yt  this session: ${showLine(whole)}`]),
    ...(rememberProjectFor(approval) && covers !== undefined ? [`   p   this project: ${showLine(covers)}`] : []),
    '   n   once; what you type behind it reaches the agent',
    `   N   (or na) this session: ${showLine(deniedBy(approval))}`,
  ].join('\n');
}

/** What a no for the session covers. */
function deniedBy(approval: Approval): string {
  const { door } = approval;
  if (door?.kind === 'signature') return 'signatures with this key';
  if (door) return door.kind === 'host' || door.kind === 'upload' ? 'all hosts of this domain' : 'this path';
  const no = choicesOf(approval).find(({ key }) => key === 'N');
  return no?.remember?.match === 'tool' ? `all calls of ${approval.tool}` : 'exactly this call';
}
