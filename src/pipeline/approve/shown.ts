/** What a person is shown of a call's input: short input whole, long input cut, with the gaps marked. */
import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import type { Effect } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import { visible, visibleInLine } from '../../base/text/shown-text.ts';

/** The most values that are shown; a person reads no more, and a list of approvals must fit into one message. */
const VALUES_MAX = 256;
const KEY_CHARS_MAX = 128;
/** One text gets at most 1/SHARE of the room, so that a long text does not hide what follows it. */
const SHARE = 4;
/** Escaping invisible characters may make a text longer, at most by this factor. */
const GROWTH = 2;

export interface CutValue {
  readonly value: unknown;
  readonly cut: boolean;
}

/** The input without the parameters that have their default, which the caller need not have given. */
export function withoutDefaults(input: unknown, { shape }: Pick<z.ZodObject, 'shape'>): unknown {
  if (typeof input !== 'object' || input === null) return input;
  const isDefault = (name: string, value: unknown) => {
    const field = shape[name];
    return field instanceof z.ZodDefault && isDeepStrictEqual(value, field.def.defaultValue);
  };
  return Object.fromEntries(
    Object.entries(input).filter(([name, value]) => value !== undefined && !isDefault(name, value)),
  );
}

/** Cuts a value to plain JSON data of about `charsMax` characters. */
export function cutValue(value: unknown, charsMax: number): CutValue {
  const room = { chars: charsMax, values: VALUES_MAX, perText: Math.ceil(charsMax / SHARE), cut: false };
  const result = show(value, room);
  return { value: result, cut: room.cut };
}

/** The value as plain JSON data in which nothing is cut. Throws INPUT_INVALID for one that a person could not be shown whole. */
export function wholeValue(value: unknown, charsMax: number): unknown {
  const room = { chars: charsMax, values: charsMax / VALUE_CHARS, perText: charsMax, cut: false };
  const result = show(value, room);
  if (!room.cut) return result;
  throw new ToolError(
    'INPUT_INVALID',
    `a person is asked about this call, whose input is longer than the ${charsMax} characters that can be shown`,
    {
      suggestion: 'Make several smaller calls.',
      details: { limit: charsMax, unit: 'characters' },
    },
  );
}
/** The room that a value takes, at least. */
const VALUE_CHARS = 8;

/** The start and the end of a text, and how many characters are missing between them. */
export function cutText(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const head = Math.ceil((charsMax * 3) / 4);
  const tail = charsMax - head;
  const end = tail > 0 ? text.slice(-tail).toWellFormed() : '';
  return `${text.slice(0, head).toWellFormed()} … ${text.length - charsMax} characters are not shown … ${end}`;
}

interface RemainingRoom {
  chars: number;
  values: number;
  readonly perText: number;
  cut: boolean;
}

function show(value: unknown, room: RemainingRoom): unknown {
  if (room.values <= 0 || room.chars <= 0) {
    room.cut = true;
    return '… not shown …';
  }
  room.values -= 1;
  if (typeof value === 'string') return showText(value, room);
  if (value instanceof Uint8Array) {
    room.cut = true;
    return `${value.length} bytes`;
  }
  if (typeof value === 'bigint') return showText(String(value), room);
  if (typeof value !== 'object' || value === null) {
    room.chars -= 8;
    return value;
  }
  return Array.isArray(value) ? showItems(value, room) : showEntries(value, room);
}

function showText(text: string, room: RemainingRoom): string {
  const max = Math.min(room.perText, room.chars);
  const visibleText = visible(text.length <= max ? text : cutText(text, max));
  room.chars -= Math.min(visibleText.length, max) + 2;
  if (text.length > max || visibleText.length > GROWTH * max) room.cut = true;
  return visibleText.length <= GROWTH * max ? visibleText : cutText(visibleText, GROWTH * max);
}

function showItems(items: readonly unknown[], room: RemainingRoom): unknown[] {
  const result: unknown[] = [];
  for (const item of items) {
    if (room.values <= 0 || room.chars <= 0) {
      room.cut = true;
      result.push(`… ${items.length - result.length} more are not shown …`);
      break;
    }
    result.push(show(item, room));
  }
  return result;
}

function showEntries(object: object, room: RemainingRoom): object {
  const result: [string, unknown][] = [];
  const keys = Object.keys(object);
  for (const key of keys) {
    if (room.values <= 0 || room.chars <= 0) {
      room.cut = true;
      result.push(['…', `${keys.length - result.length} more are not shown`]);
      break;
    }
    room.chars -= Math.min(key.length, KEY_CHARS_MAX) + 4;
    if (key.length > KEY_CHARS_MAX) room.cut = true;
    result.push([visibleInLine(cutText(key, KEY_CHARS_MAX)), show((object as Record<string, unknown>)[key], room)]);
  }
  return Object.fromEntries(result);
}

const textOf = (value: unknown): string =>
  JSON.stringify(value, (_, it: unknown) => (typeof it === 'bigint' ? String(it) : it));

/** How many parts redaction takes out of what is to be approved; at least 1 if anything differs. */
export function hiddenIn(value: unknown, redact: <T>(value: T) => T): number {
  const [before, after] = [value, redact(value)].map(textOf) as [string, string];
  if (before === after) return 0;
  const marks = (text: string) => text.split('[redacted').length - 1;
  return Math.max(1, marks(after) - marks(before));
}

/** The most characters of a path or other target that a person is shown. */
export const TARGET_CHARS_MAX = 1024;

export const cutEffect = ({ kind, target }: Effect): Effect => ({
  kind,
  target: visibleInLine(cutText(target, TARGET_CHARS_MAX)),
});
