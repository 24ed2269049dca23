/** Finds titles of tests that say nothing without the text around them, as in a list of failures. */
import { type Argument, type Expression, parseSync, Visitor } from 'oxc-parser';

/** Words that continue a sentence which the title does not contain. */
const BEGINNING = `(?:${'is that of has have with by what nor and not in on'.replaceAll(' ', '|')})\\b`;
/** One or more of vitest's `%s` and `$name`, with no word beside them. */
const PLACEHOLDERS = '(?:[^\\p{L}\\p{N}%$\'"`]*(?:%[%sdifjoOc#$]|\\$[\\w.]+))+[^\\p{L}\\p{N}%$\'"`]*';
const WITHOUT_SUBJECT = new RegExp(`^(?:${BEGINNING}|${PLACEHOLDERS}$)`, 'iu');
/** Text between quotes that could be such a title. Most files have none, and are not parsed: that takes milliseconds. */
const SUSPECT = new RegExp(`(?:\\(|^\\s*)(['"\`])(?:${BEGINNING}[^\\n]*|${PLACEHOLDERS}(?:\\$\\{.*)?)\\1,`, 'imu');
/** Members of `test` that take something else than a title: `test.each(table)(title, run)`. */
const TAKING_NO_TITLE = new Set(['each', 'for', 'runIf', 'skipIf', 'extend']);
const MODIFIERS = new Set([...TAKING_NO_TITLE, 'only', 'skip', 'todo', 'fails', 'concurrent', 'sequential']);
const TEST = new Set(['test', 'it']);

/** The titles in a file of tests that don't name their subject, each with its line. */
export function titlesWithoutSubject(file: string, text: string): string[] {
  if (!SUSPECT.test(text)) return [];
  const { program, errors } = parseSync(file, text);
  if (errors[0]) throw new Error(`${file}: ${errors[0].message}`);
  const found: string[] = [];
  new Visitor({
    CallExpression({ callee, arguments: [first] }) {
      const title = first && takesTitle(callee) ? titleOf(first) : '';
      if (WITHOUT_SUBJECT.test(title))
        found.push(`${file}:${text.slice(0, first?.start).split('\n').length}: ${title}`);
    },
  }).visit(program);
  return found;
}

/** Whether it is `test`, `test.only`, `test.each(table)`, `test.skipIf(reason)` and the like. */
function takesTitle(callee: Expression): boolean {
  if (callee.type === 'MemberExpression' && isNamed(callee.property, TAKING_NO_TITLE)) return false;
  let at = callee;
  for (;;) {
    if (at.type === 'CallExpression') at = at.callee;
    else if (at.type === 'TaggedTemplateExpression') at = at.tag;
    else if (at.type === 'MemberExpression' && isNamed(at.property, MODIFIERS)) at = at.object;
    else return isNamed(at, TEST);
  }
}

const isNamed = (it: { readonly type: string; readonly name?: unknown }, names: ReadonlySet<unknown>): boolean =>
  it.type === 'Identifier' && names.has(it.name);

/** A title as it is read, with `…` for the holes of a template; empty if it is made elsewhere. */
function titleOf(it: Argument): string {
  if (it.type === 'TemplateLiteral') return it.quasis.map(({ value }) => value.cooked ?? '').join('…');
  return it.type === 'Literal' && typeof it.value === 'string' ? it.value : '';
}
