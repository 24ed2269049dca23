/** Changes single settings in a configuration file of another program, leaving everything else unchanged. */
import { isDeepStrictEqual } from 'node:util';
import { applyEdits, modify } from 'jsonc-parser';
import { stringify as toToml } from 'smol-toml';
import { isRecord } from '../../base/text/values.ts';
import { OperatorError } from '../output.ts';
import type { Denials, Setting } from './agents.ts';
import { formattingOf, readJson, readToml, splitMark } from './config-edit.ts';

type Format = Denials['format'];

/** The text with all settings. Throws OperatorError if the text does not have the given format, or a form that can't be edited. */
export const withSettings = (text: string, { format, settings }: Omit<Denials, 'files'>): string =>
  settings.reduce((edited, it) => put(edited, format, it.path, wanted(valueAt(edited, format, it.path), it)), text);

/** The text with the settings as `original` has them. Throws OperatorError. */
export const withoutSettings = (text: string, original: string, { format, settings }: Omit<Denials, 'files'>): string =>
  settings.reduce((edited, it) => {
    const before = valueAt(original, format, it.path);
    return put(edited, format, it.path, restored(valueAt(edited, format, it.path), before, it));
  }, text);

function wanted(known: unknown, setting: Setting): unknown {
  if ('value' in setting) return setting.value;
  if (known !== undefined && !Array.isArray(known))
    throw new OperatorError(`${setting.path.join('.')} in the file is not a list`);
  return [...new Set([...((known as unknown[] | undefined) ?? []), ...setting.members])];
}

/** A list keeps what others added to it since. */
function restored(known: unknown, before: unknown, setting: Setting): unknown {
  if ('value' in setting) return isDeepStrictEqual(known, setting.value) ? before : known;
  if (!Array.isArray(known)) return known;
  const had: readonly unknown[] = Array.isArray(before) ? before : [];
  const left = known.filter((it) => had.includes(it) || !setting.members.some((member) => member === it));
  return left.length === 0 && before === undefined ? undefined : left;
}

/** The value at a path. Throws OperatorError if the text does not have the format, or something else stands in the way. */
function valueAt(text: string, format: Format, path: readonly string[]): unknown {
  const [, body] = splitMark(text);
  let at: unknown = format === 'json' ? readJson(body) : readToml(body);
  for (const [index, key] of path.entries()) {
    if (at === undefined) return undefined;
    if (!isRecord(at)) throw new OperatorError(`${path.slice(0, index).join('.')} in the file is not an object`);
    at = at[key];
  }
  return at;
}

/** The text with the value at a path, or without it if undefined. Throws OperatorError. */
function put(text: string, format: Format, path: readonly string[], value: unknown): string {
  if (isDeepStrictEqual(valueAt(text, format, path), value)) return text;
  const [mark, body] = splitMark(text);
  if (format === 'toml') return mark + inToml(body, path, value);
  const edited = applyEdits(body, modify(body, [...path], value, { formattingOptions: formattingOf(body) }));
  return mark + (edited.endsWith('\n') ? edited : `${edited}\n`);
}

/**
 * Edits one line of TOML, since every TOML writer would lose the comments: the line of the key is replaced, removed or
 * added at the end of its table.
 */
function inToml(text: string, path: readonly string[], value: unknown): string {
  const lines = text.split('\n');
  const key = path.at(-1) as string;
  const table = path.slice(0, -1).join('.');
  const line = value === undefined ? [] : [toToml({ [key]: value }).trimEnd()];
  const isHeader = (it: string) => it.trimStart().startsWith('[');
  const header = table === '' ? -1 : lines.findIndex((it) => it.split('#')[0]?.trim() === `[${table}]`);
  const isMissing = table !== '' && header < 0;
  const next = lines.findIndex((it, index) => index > header && isHeader(it));
  const end = next < 0 ? lines.length : next;
  const at = isMissing ? -1 : lines.findIndex((it, index) => index > header && index < end && keyOf(it) === key);
  const last = lines.slice(0, end).findLastIndex((it) => it.trim() !== '' && !it.trimStart().startsWith('#'));
  const edited = isMissing
    ? `${[text.trimEnd(), [`[${table}]`, ...line].join('\n')].filter(Boolean).join('\n\n')}\n`
    : lines.toSpliced(at < 0 ? last + 1 : at, at < 0 ? 0 : 1, ...line).join('\n');
  try {
    if (isDeepStrictEqual(valueAt(edited, 'toml', path), value)) return edited.endsWith('\n') ? edited : `${edited}\n`;
  } catch {} // The key or its table has another form, such as a value of several lines.
  throw new OperatorError(`${path.join('.')} has a form that install does not support; edit it by hand`);
}

const keyOf = (line: string): string | undefined => /^\s*([\w-]+)\s*=/.exec(line)?.[1];
