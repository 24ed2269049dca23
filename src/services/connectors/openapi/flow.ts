/** Writes values as YAML in one line, as the presets have them: the yaml package takes most of a second for a large file. */
import { isRecord } from '../../../base/text/values.ts';

/** Words and names that YAML reads as they are; other texts are quoted as in JSON, which YAML reads as well. */
const BARE = /^[A-Za-z][A-Za-z0-9_]*(?: [A-Za-z0-9_]+)*$/;
const RESERVED = /^(?:true|false|null|yes|no|on|off|y|n)$/i;

const toWord = (text: string): string => (BARE.test(text) && !RESERVED.test(text) ? text : JSON.stringify(text));

/** A value of plain data in one line; members that are undefined are left out. */
export function toFlow(value: unknown): string {
  if (typeof value === 'string') return toWord(value);
  if (Array.isArray(value)) return `[${value.map(toFlow).join(', ')}]`;
  if (!isRecord(value)) return JSON.stringify(value ?? null);
  const members = Object.entries(value).filter(([, it]) => it !== undefined);
  return members.length === 0 ? '{}' : `{ ${members.map(([key, it]) => `${toWord(key)}: ${toFlow(it)}`).join(', ')} }`;
}
