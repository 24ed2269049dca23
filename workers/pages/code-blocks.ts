/** Code in a page as Markdown. */
import { type Element, isTag } from 'domhandler';
import { rawTextOf } from './elements.ts';

/** How sites name the language of a block in its classes: `language-ts`, `lang-ts`, `highlight-source-ts`, `brush: ts`. */
const LANGUAGE = /(?:^|\s)(?:language-|lang-|highlight-source-|brush:\s*)([\w+#.-]{1,32})/i;

/** The lines of a `<pre>`, without the line end that follows its start tag. */
export function codeLines(pre: Element): string[] {
  const text = rawTextOf(pre).replace(/\r\n?/g, '\n').replace(/^\n/, '').trimEnd();
  return text === '' ? [] : text.split('\n');
}

/** The lines of a `<pre>` in a fence that no line of it can end. */
export function fencedCode(pre: Element): string[] {
  const lines = codeLines(pre);
  if (lines.length === 0) return [];
  const fence = '`'.repeat(Math.max(3, longestRun(lines.join('\n')) + 1));
  return [`${fence}${languageOf(pre)}`, ...lines, fence];
}

/** A text as inline code that it can't end. */
export function inlineCode(text: string): string {
  if (text === '') return '';
  const ticks = '`'.repeat(longestRun(text) + 1);
  const space = text.startsWith('`') || text.endsWith('`') ? ' ' : '';
  return `${ticks}${space}${text}${space}${ticks}`;
}

function longestRun(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return longest;
}

/** The language by the classes of the block, of the `<code>` in it, or of what is around it. */
function languageOf(pre: Element): string {
  const code = pre.children.find((it): it is Element => isTag(it) && it.name === 'code');
  const around = pre.parent && isTag(pre.parent) ? pre.parent : undefined;
  for (const it of [code, pre, around]) {
    const name = it?.attribs['data-lang'] ?? LANGUAGE.exec(it?.attribs.class ?? '')?.[1];
    if (name !== undefined && /^[\w+#.-]{1,32}$/.test(name)) return name.toLowerCase();
  }
  return '';
}
