/** Pages of the web, which become text for a model. */
import { readdirSync, readFileSync } from 'node:fs';
import { ToolError } from '../../src/base/errors.ts';
import { defaultLimits } from '../../src/base/limits.ts';
import { withoutUnseen } from '../../src/base/text/shown-text.ts';
import { FORMATS } from '../../src/tools/context/page.ts';
import { Pages } from '../../workers/pages/pages.ts';
import { type Grammar, some, word } from './grammar.ts';
import { holds, shapeOfMessage } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

const fixtures = new URL('../fixtures/pages/', import.meta.url);
const pages = readdirSync(fixtures)
  .filter((it) => it.endsWith('.html'))
  .map((it) => readFileSync(new URL(it, fixtures)).subarray(0, 2_000));

/** Stands before each input, which can't change what was read already. */
const START = '<!doctype html><p hidden>zq-hidden</p><p>zq-shown</p>\n';

const TAGS = [
  ...['p', 'div', 'span', 'a href="/x"', 'a href="javascript:x"', 'b', 'i', 'del', 'code', 'pre', 'q', 'sup', 'br'],
  ...['ul', 'ol start=3', 'li', 'dl', 'dt', 'dd', 'table', 'tr', 'td', 'td colspan=99', 'th', 'caption', 'h1', 'h4'],
  ...['main', 'nav', 'aside', 'article', 'blockquote', 'img src=/i alt=x', 'input type=checkbox', 'hr', 'button'],
  ...['script', 'style', 'template', 'noscript', 'textarea', 'title', 'svg', 'math', 'iframe', 'select', 'option'],
  ...['p hidden', 'p style="display:none"', 'span aria-hidden=true', 'base href="http://[bad"', 'html lang=de'],
] as const;
const TEXTS = [
  ...['text ', ' ', '\n', '  two  ', '*', '_', '`', '```', '#', '- ', '1. ', '> ', '|', '[', ']', '\\', '---', '&lt;'],
  ...[
    '&#x202e;',
    '&nbsp;',
    '&#0;',
    '\u200b',
    '\u{e0041}',
    '\ufeff',
    '\0',
    'é',
    '\u{1f469}\u200d\u{1f4bb}',
    '<',
    '>',
    '&',
  ],
] as const;

const text = word(...TEXTS);
const openTag: Grammar = (random) => `<${word(...TAGS)(random)}>`;
const endTag: Grammar = (random) => `</${word(...TAGS)(random).split(' ', 1)[0]}>`;
const comment: Grammar = (random) => `<!--${some(text, 3)(random).join('')}-->`;
const part: Grammar = (random) => [text, text, openTag, openTag, endTag, endTag, comment][random(7)]?.(random) ?? '';

export const pageTarget: FuzzTarget = {
  seeds: [...pages, '{"a":[1,{"b":null}]}', '%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n%%EOF', 'plain *text*'],
  words: [...TAGS.map((it) => `<${it}>`), ...TEXTS],
  generate: (random) => some(part, 60)(random).join(''),
  async run(input) {
    const reader = new Pages({ ...defaultLimits, pagesKeptBytes: 1 }, () => 0);
    const [format, isPlain] = [FORMATS[input.length % FORMATS.length] ?? 'markdown', input.length % 9 === 0];
    const body = isPlain ? input : Buffer.concat([Buffer.from(START), input]);
    const page = {
      url: 'https://example.org/page',
      contentType: isPlain ? undefined : 'text/html; charset=utf-8',
      body,
      isCut: input.length % 5 === 0,
      status: 200,
      fetchedAt: '2026-01-01T00:00:00.000Z',
      cached: 'no' as const,
    };
    try {
      const { content, title = '', notes } = await reader.content(page, { format });
      for (const it of [content, title, ...notes]) holds(withoutUnseen(it) === it, 'each character of a page is seen');
      holds(content.length <= defaultLimits.pageTextCharsMax, 'a page has a bound');
      if (isPlain) return `${format} ${notes.length}`;
      holds(!content.includes('zq-hidden'), 'what a page hides is left out');
      holds(content.includes('zq-shown') || format === 'json', 'what a page shows is there');
      return `${format} ${shapeOfMessage(notes.join())} ${title !== ''} ${Math.min(content.split('\n').length, 12)}`;
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      return `${format} ${error.code}`;
    }
  },
};
