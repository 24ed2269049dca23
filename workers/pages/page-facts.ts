/** What a page is and says of itself. */
import { type AnyNode, isTag } from 'domhandler';
import { isText } from '../../src/base/text/charset.ts';
import type { FetchedPage } from '../../src/tools/context/page.ts';
import { firstNamed, lineOf, nodesWith } from './elements.ts';
import { absoluteLink } from './inline.ts';
import type { PageTree } from './page-tree.ts';

export type Kind = 'html' | 'json' | 'text' | 'pdf' | 'other';

/** Bytes in which a page without a type may show what it is. */
const START_BYTES = 512;

/** What the page is by its type or, if it has none, by its first bytes. */
export function kindOf({ contentType, body, isCut }: FetchedPage): Kind {
  const [type = ''] = (contentType ?? '').split(';', 1);
  const start = Buffer.from(body.subarray(0, START_BYTES)).toString('latin1').trimStart();
  if (start.startsWith('%PDF-') || /^application\/pdf$/i.test(type.trim())) return 'pdf';
  if (/html/i.test(type)) return 'html';
  if (!isText(body, { contentType, isCut })) return 'other';
  if (/json/i.test(type)) return 'json';
  return type.trim() === '' && /^(<!doctype html|<html|<head|<body)\b/i.test(start) ? 'html' : 'text';
}

const TITLE_CHARS_MAX = 300;
const LANGUAGE = /^[a-z]{2,3}(-[a-z0-9]{1,8}){0,3}$/i;

/** Title and language, as far as the page says them. */
export function factsOf({ root }: PageTree): { title?: string | undefined; language?: string } {
  const titled = firstNamed(root, 'title') ?? firstNamed(root, 'h1');
  const title = titled ? lineOf(titled).slice(0, TITLE_CHARS_MAX) : '';
  const language = firstNamed(root, 'html')?.attribs.lang?.trim();
  return {
    title: title || undefined,
    ...(language !== undefined && LANGUAGE.test(language) && { language }),
  };
}

/** The address that links of the page are relative to. */
export function baseOf({ root }: PageTree, { url }: FetchedPage): string {
  const href = firstNamed(root, 'base')?.attribs.href;
  return (href !== undefined && URL.parse(href, url)?.href) || url;
}

const LINKS_MAX = 200;

/** The addresses that links in these parts lead to, each once. */
export function linksIn(parts: readonly AnyNode[], base: string): string[] {
  const links = new Set<string>();
  for (const part of parts) {
    for (const it of nodesWith(part)) {
      if (links.size === LINKS_MAX) return [...links];
      const link = isTag(it) && it.name === 'a' ? absoluteLink(it.attribs.href ?? '#', base) : undefined;
      if (link !== undefined) links.add(link);
    }
  }
  return [...links];
}
