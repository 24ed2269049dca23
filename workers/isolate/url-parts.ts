/**
 * Parses URLs for programs: their engine has no parser, and one of our own would be larger than all of our wrapper. Runs in the host,
 * with texts that are untrusted, and gives one text: the parts of a URL as a list in JSON, or nothing for what is no URL.
 */

import { urlPartNames } from './url-globals.ts';

/** Characters of a URL and of what it is made of; a program may call this in a loop. */
const CHARS_MAX = 64 * 1024;
const NAMES = urlPartNames();

/** `text` is a URL, relative to `base` if there is one; `part` of it gets `value` first. */
export function urlParts(text: unknown, base: unknown, part: unknown, value: unknown): string {
  const words = [text, base, part, value];
  if (words.some((it) => it !== undefined && (typeof it !== 'string' || it.length > CHARS_MAX))) return '';
  try {
    const url = new URL(text as string, base as string | undefined);
    const name = NAMES.slice(1).find((it) => it === part);
    if (name) Object.assign(url, { [name]: value });
    return JSON.stringify(NAMES.map((it) => url[it as keyof URL]));
  } catch {
    return ''; // A TypeError: it is no URL.
  }
}
