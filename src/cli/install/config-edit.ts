/** Adds an entry to a configuration file of another program or removes it, leaving everything else unchanged. */
import { isDeepStrictEqual } from 'node:util';
import {
  applyEdits,
  type FormattingOptions,
  modify,
  type ParseError,
  parse as parseJsonc,
  printParseErrorCode,
} from 'jsonc-parser';
import { parse as parseToml, stringify as toToml } from 'smol-toml';
import { isRecord } from '../../base/text/values.ts';
import { OperatorError } from '../output.ts';

export interface ConfigEntry {
  readonly format: 'json' | 'toml';
  /** Keys down to the entry: the list's key, and a name in the list. */
  readonly path: readonly [string, string];
}

/** The text with `entry` at its place, or without the entry if undefined. Throws OperatorError if the text does not have the given format. */
export function withEntry(text: string, { format, path }: ConfigEntry, entry: object | undefined): string {
  const [mark, body] = splitMark(text);
  return mark + (format === 'json' ? inJson(body, path, entry) : inToml(body, path, entry));
}

/** The byte order mark that editors on Windows write, and the rest. */
export function splitMark(text: string): [mark: string, body: string] {
  const mark = text.startsWith('\ufeff') ? '\ufeff' : '';
  return [mark, text.slice(mark.length)];
}

/** The object of a JSON file with comments; undefined if the file is empty. Throws OperatorError. */
export function readJson(text: string): Record<string, unknown> | undefined {
  const errors: ParseError[] = [];
  const root: unknown = parseJsonc(text, errors, { allowTrailingComma: true });
  const [error] = errors;
  if (error && text.trim() !== '')
    throw new OperatorError(`the file is not JSON: ${printParseErrorCode(error.error)} at character ${error.offset}`);
  if (root !== undefined && !isRecord(root)) throw new OperatorError('the file does not hold a JSON object');
  return root;
}

export function readToml(text: string): Record<string, unknown> {
  try {
    return parseToml(text);
  } catch (error) {
    throw new OperatorError(`the file is not TOML: ${(error as Error).message.split('\n')[0]}`);
  }
}

/** Formats new members as the file is indented. */
export function formattingOf(text: string): FormattingOptions {
  const indent = /^([ \t]+)\S/m.exec(text)?.[1] ?? '  ';
  return { insertSpaces: !indent.startsWith('\t'), tabSize: indent.length, eol: '\n' };
}

function inJson(text: string, path: ConfigEntry['path'], entry: object | undefined): string {
  const root = readJson(text);
  const list = root?.[path[0]];
  if (list !== undefined && !isRecord(list))
    throw new OperatorError(`${path[0]} in the file is not an object of servers`);
  if (entry === undefined && list?.[path[1]] === undefined) return text;
  const known = list?.[path[1]];
  const merged = entry && { ...(isRecord(known) && known), ...entry };
  const edited = applyEdits(text, modify(text, [...path], merged, { formattingOptions: formattingOf(text) }));
  return edited.endsWith('\n') ? edited : `${edited}\n`;
}

/** Edits TOML line by line, since every TOML writer would lose the comments: the table is appended, or replaced in place. */
function inToml(text: string, [list, name]: ConfigEntry['path'], entry: object | undefined): string {
  const root = readToml(text);
  const header = `[${list}.${name}]`;
  const lines = text.split('\n');
  const at = lines.findIndex((it) => it.trim().split('#')[0]?.trim() === header);
  const known = isRecord(root[list]) ? root[list][name] : undefined;
  if (known !== undefined && at < 0)
    throw new OperatorError(`the file writes ${list}.${name} in another form than ${header}; edit it by hand`);
  if (entry === undefined && at < 0) return text;
  // Subtables (env, settings of tools) belong to the person and stay.
  const own = Object.entries(isRecord(known) ? known : {}).filter(([, value]) => !isRecord(value));
  const table = entry
    ? [
        header,
        ...toToml({ ...Object.fromEntries(own), ...entry })
          .trimEnd()
          .split('\n'),
      ]
    : [];
  const edited =
    at < 0
      ? `${[text.trimEnd(), table.join('\n')].filter(Boolean).join('\n\n')}\n`
      : lines.toSpliced(at, endOfTable(lines, at) - at, ...table).join('\n');
  return checked(edited, [list, name], entry);
}

/** Index after the last line of the table with the header at `at`; comments before the next table belong to that table. */
function endOfTable(lines: readonly string[], at: number): number {
  const next = lines.findIndex((it, index) => index > at && it.trimStart().startsWith('['));
  const before = lines.slice(0, next < 0 ? lines.length : next);
  return before.findLastIndex((it) => it.trim() !== '' && !it.trimStart().startsWith('#')) + 1;
}

/** Parses the result again, since a multi-line string may look like table lines. Throws OperatorError. */
function checked(text: string, [list, name]: ConfigEntry['path'], entry: object | undefined): string {
  try {
    const known = parseToml(text)[list];
    const found = isRecord(known) && isRecord(known[name]) ? known[name] : {};
    const isWanted = Object.entries(entry ?? { command: undefined }).every(([key, value]) =>
      isDeepStrictEqual(found[key], value),
    );
    if (isWanted) return text;
  } catch {} // The result is not valid TOML.
  throw new OperatorError(`[${list}.${name}] has a form that install does not support; edit it by hand`);
}
