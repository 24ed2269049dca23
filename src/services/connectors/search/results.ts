/** Results of web searches as models get them: without markup and invisible characters, each page once, within bounds. */
import type { Limits } from '../../../base/limits.ts';
import { withoutUnseen } from '../../../base/text/shown-text.ts';
import { isRecord } from '../../../base/text/values.ts';

export interface SearchResult {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
  /** Day on which the page was published, such as 2026-01-31. */
  readonly published?: string | undefined;
}

const TITLE_CHARS_MAX = 300;
const URL_CHARS_MAX = 2_048;
/** Characters of a text that are looked at; the rest of a longer one is not cleaned, but left out. */
const RAW_CHARS_MAX = 20_000;

/** The first `maxResults` good results of what a service answered, and whether others were left out for their size. */
export function toResults(
  answered: unknown,
  maxResults: number,
  { searchBytesMax, searchSnippetCharsMax }: Limits,
): { results: SearchResult[]; truncated: boolean } {
  const results: SearchResult[] = [];
  const seen = new Set<string>();
  let bytes = 0;
  for (const it of Array.isArray(answered) ? (answered as unknown[]) : []) {
    if (results.length >= maxResults) break;
    const result = isRecord(it) ? toResult(it, searchSnippetCharsMax) : undefined;
    if (!result || seen.has(pageOf(result.url))) continue;
    seen.add(pageOf(result.url));
    bytes += Buffer.byteLength(JSON.stringify(result));
    if (bytes > searchBytesMax) return { results, truncated: true };
    results.push(result);
  }
  return { results, truncated: false };
}

/** A result; undefined for what leads to no web page, such as related searches and adverts. */
function toResult(
  { title, url: given, snippet, published }: Readonly<Record<string, unknown>>,
  snippetCharsMax: number,
): SearchResult | undefined {
  const url = typeof given === 'string' && given.length <= URL_CHARS_MAX ? URL.parse(given) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return undefined;
  const day = dayOf(published);
  return {
    title: cut(plainText(title), TITLE_CHARS_MAX) || url.hostname,
    url: url.href,
    snippet: cut(plainText(snippet), snippetCharsMax),
    published: day,
  };
}

/** A text that is equal for addresses of one page: the same page under http and https, with and without `www.` or a campaign. */
function pageOf(text: string): string {
  const { hostname, port, pathname, searchParams } = new URL(text);
  const query = [...searchParams].filter(([name]) => !/^(utm_\w+|fbclid|gclid|msclkid)$/.test(name));
  const path = pathname.replace(/\/+$/, '');
  return JSON.stringify([hostname.replace(/^www\./, ''), port, path, query]);
}

/** The text of a field, or of a list of passages, without markup and on one line. */
function plainText(field: unknown): string {
  const passages = (Array.isArray(field) ? field : [field]).filter((it): it is string => typeof it === 'string');
  const text = passages.join(' … ').slice(0, RAW_CHARS_MAX).toWellFormed();
  const plain = text.replaceAll(TAG, ' ').replaceAll(ENTITY, (whole, name: string) => characterOf(name) ?? whole);
  return withoutUnseen(plain).replaceAll(/\s+/g, ' ').trim();
}

/** Tags by which services mark words in snippets. Others are text, such as `Array<T>` in a page about programming. */
const TAG =
  /<\/?(?:a|b|br|code|div|em|font|i|li|mark|ol|p|small|span|strong|sub|sup|u|ul|wbr)(?:\s[^<>]{0,500})?\s?\/?>/gi;

const ENTITY = /&(#\d{1,7}|#x[\da-f]{1,6}|[a-z]{2,8});/gi;
const NAMED: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  hellip: '…',
  ndash: '–',
  mdash: '—',
  lsquo: '‘',
  rsquo: '’',
  ldquo: '“',
  rdquo: '”',
  middot: '·',
  bull: '•',
  copy: '©',
  euro: '€',
};

function characterOf(name: string): string | undefined {
  if (!name.startsWith('#')) return Object.hasOwn(NAMED, name) ? NAMED[name] : undefined;
  const code = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code).toWellFormed() : undefined;
}

/** The day of a date as a service writes it; undefined for what is none, such as `2 days ago`. */
function dayOf(published: unknown): string | undefined {
  if (typeof published !== 'string' || published.length > 64) return undefined;
  const [iso] = /^\d{4}-\d{2}-\d{2}(?!\d)/.exec(published) ?? [];
  const ms = Date.parse(iso ?? published);
  // Words with a number in them are dates to some parsers.
  if (Number.isNaN(ms) || !/\d{4}/.test(published)) return undefined;
  return new Date(ms).toISOString().slice(0, 'yyyy-mm-dd'.length);
}

function cut(text: string, charsMax: number): string {
  return text.length <= charsMax
    ? text
    : `${text
        .slice(0, charsMax - 1)
        .toWellFormed()
        .trimEnd()}…`;
}
