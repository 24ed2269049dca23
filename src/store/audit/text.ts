/** Makes text from callers safe for the log: bounded, and without characters that could control a terminal or hide text. */

import { escapeUnseenInLine } from '../../base/text/shown-text.ts';

export interface TextBounds {
  /** Characters of the JSON of one value before escaping, which turns each character into at most six. */
  readonly charsMax: number;
  readonly depthMax: number;
}

/** A name or an id cut at `charsMax`, with invisible characters as `\uXXXX`; texts that differ within the bound stay different. */
export function toVisible(text: string, charsMax: number): string {
  const shortened = text.length > charsMax ? cutText(text, charsMax) : text;
  return escapeUnseenInLine(shortened.toWellFormed().replaceAll('\\', '\\\\'));
}

/** `value` as JSON within `bounds`, with a marker `[cut: …]` wherever something is missing; undefined for undefined. */
export function toBoundedJson(value: unknown, bounds: TextBounds): string | undefined {
  if (value === undefined) return undefined;
  const fits = measure(value, bounds.charsMax, bounds.depthMax) >= 0;
  const json = JSON.stringify(fits ? value : cut(value, { left: bounds.charsMax }, bounds.depthMax)) ?? 'null';
  return escapeUnseenInLine(
    json.includes('\\ud') ? json.replaceAll(ESCAPED, (it) => (it.length > 2 ? '\ufffd' : it)) : json,
  );
}

/** Escapes that JSON.stringify writes, among them lone surrogates, which are replaced by U+FFFD since no message can carry them. */
const ESCAPED = /\\(?:ud[89a-f][0-9a-f]{2}|.)/g;

/** What remains of `left` after `value`; negative if it doesn't fit or is not plain JSON. */
function measure(value: unknown, left: number, depth: number): number {
  if (typeof value === 'string') return left - value.length - 2;
  if (typeof value === 'number') return left - 8;
  if (typeof value === 'boolean' || value === null || value === undefined) return left - 5;
  if (typeof value !== 'object' || depth === 0) return -1;
  let rest = left - 2;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && rest >= 0; i++) rest = measure(value[i], rest - 1, depth - 1);
    return rest;
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return -1;
  for (const key in value) {
    const member = (value as Record<string, unknown>)[key];
    // JSON leaves it out.
    if (member === undefined) continue;
    rest = measure(member, rest - key.length - 4, depth - 1);
    if (rest < 0) break;
  }
  return rest;
}

interface TextBudget {
  left: number;
}

/** A copy of what fits. One string gets at most half of what is left, so that values after a long one still have room. */
function cut(value: unknown, budget: TextBudget, depth: number): unknown {
  if (typeof value === 'string') {
    const shortened = cutText(value, Math.max(0, budget.left >> 1));
    budget.left -= shortened.length + 2;
    return shortened;
  }
  budget.left -= 8;
  if (typeof value === 'bigint') return String(value).slice(0, 64);
  if (typeof value !== 'object' || value === null) return value;
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (depth === 0) return '[cut: nested too deep]';
  return Array.isArray(value) ? cutArray(value, budget, depth) : cutObject(value, budget, depth);
}

function cutArray(items: readonly unknown[], budget: TextBudget, depth: number): unknown[] {
  const keptItems: unknown[] = [];
  for (const item of items) {
    if (budget.left <= 0) {
      keptItems.push(`[cut: ${items.length - keptItems.length} of ${items.length} items]`);
      break;
    }
    keptItems.push(cut(item, budget, depth - 1));
  }
  return keptItems;
}

function cutObject(value: object, budget: TextBudget, depth: number): object {
  const keptEntries: Record<string, unknown> = Object.create(null);
  const entries = Object.entries(value).filter(([, it]) => it !== undefined);
  for (const [at, [key, member]] of entries.entries()) {
    if (budget.left <= 0) {
      keptEntries['[cut]'] = `${entries.length - at} of ${entries.length} keys`;
      break;
    }
    const name = cutText(key, Math.max(0, budget.left >> 1));
    budget.left -= name.length + 4;
    keptEntries[name] = cut(member, budget, depth - 1);
  }
  return keptEntries;
}

/** Cuts a text, never between the two halves of a surrogate pair. */
function cutText(text: string, chars: number): string {
  if (text.length <= chars) return text;
  const head = text.slice(0, isHalfway(text, chars) ? chars - 1 : chars);
  return `${head}[cut: ${text.length - head.length} of ${text.length} characters]`;
}

const isHalfway = (text: string, at: number): boolean => at > 0 && (text.codePointAt(at - 1) as number) > 0xffff;
