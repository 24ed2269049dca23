/**
 * Results of the most used tools as short texts for models, instead of their data as JSON: without fields that a model can't act on, and
 * without repetition. Programs get the data. The forms are those that models know from `ls`, `rg --heading` and git.
 */
import { counted } from '../../base/text/shown-text.ts';
import { toJson } from './json.ts';
import { textsOf } from './result-text.ts';

type Data = Readonly<Record<string, unknown>>;

/** The texts of a result; all data if its shape is not the tool's own, such as an older daemon's. */
export function modelTexts(tool: string, data: unknown): string[] {
  const form = FORMS.get(tool);
  if (!form || typeof data !== 'object' || data === null || 'details' in data) return textsOf(data);
  return form(data as Data) ?? textsOf(data);
}

const FORMS = new Map<string, (data: Data) => string[] | undefined>([
  [
    'file_list',
    ({ entries, truncated }) => (isRows<ListedFile>(entries, 'path') ? listed(entries, truncated) : undefined),
  ],
  ['file_grep', (data) => (isRows<SearchMatch>(data.matches, 'file') ? matchLines(data.matches, data) : undefined)],
  ['file_glob', (data) => (isNames(data.paths) ? globbed(data.paths, data) : undefined)],
  ['file_read', (data) => (typeof data.content === 'string' ? read(data.content, data) : undefined)],
  ['file_write', (data) => (typeof data.path === 'string' ? [written(data)] : undefined)],
  [
    'file_edit',
    ({ diff, hash }) => (isText(diff) && isText(hash) ? [diff === '' ? 'nothing changed' : diff] : undefined),
  ],
  ['git_diff', (data) => (isText(data.diff) ? diffed(data.diff, data) : undefined)],
  ['git_status', (data) => (isText(data.head) || data.head === null ? [toJson(withoutNothing(data))] : undefined)],
  ['web_screenshot', (data) => (isText(data.image) ? [pictured(data.image, data)] : undefined)],
  ['terminal_execute', commandLines],
  ['terminal_script', commandLines],
]);

const isText = (it: unknown): it is string => typeof it === 'string';
const isNames = (it: unknown): it is string[] => Array.isArray(it) && it.every(isText);
const isRows = <T>(it: unknown, name: string): it is T[] =>
  Array.isArray(it) && it.every((row) => typeof row === 'object' && row !== null && isText(row[name]));

/** A path, as JSON if it contains spaces, quotes or control characters. */
const nameOf = (path: string): string => (/[\s"\p{C}]/u.test(path) ? toJson(path) : path);

interface ListedFile {
  readonly path: string;
  readonly type: string;
  readonly size?: number;
}
const MARKS: Readonly<Record<string, string>> = { directory: '/', symlink: '@', other: '?' };

/** Entries as in `ls -F`, with file sizes; after the name of their directory if they share one. */
function listed(entries: readonly ListedFile[], truncated: unknown): string[] {
  const parents = new Set(entries.map(({ path }) => path.slice(0, path.lastIndexOf('/') + 1)));
  const [parent = ''] = parents.size === 1 ? parents : [];
  const lines = entries.map(({ path, type, size }) => {
    const name = `${nameOf(path.slice(parent.length))}${MARKS[type] ?? ''}`;
    return type === 'file' && size !== undefined ? `${name} ${size}` : name;
  });
  return [
    [
      ...(parent === '' ? [] : [`${nameOf(parent)}:`]),
      ...(lines.length === 0 ? ['[no entries]'] : lines),
      ...(truncated === true ? ['[truncated: there are more entries]'] : []),
    ].join('\n'),
  ];
}

interface SearchMatch {
  readonly file: string;
  readonly line: number;
  readonly text: string;
  readonly before?: readonly string[];
  readonly after?: readonly string[];
}

/** The matches of each file after its name; a match is `12:text`, a context line `11-text`. */
function matchLines(matches: readonly SearchMatch[], { filesSearched, truncated }: Data): string[] {
  if (matches.length === 0) return [`no matches in ${counted(Number(filesSearched), 'file')}`];
  const files = Map.groupBy(matches, ({ file }) => file);
  const blocks = [...files].map(([file, its]) => `${nameOf(file)}\n${linesOf(its).join('\n')}`);
  if (truncated === true) blocks.push('[truncated: there are more matches]');
  return [blocks.join('\n\n')];
}

/** Lines in order, each once, even if matches are close together. */
function linesOf(matches: readonly SearchMatch[]): string[] {
  const lines = new Map<number, string>();
  for (const { line, before = [], after = [] } of matches) {
    for (const [at, text] of before.entries()) lines.set(line - before.length + at, `-${text}`);
    for (const [at, text] of after.entries()) lines.set(line + 1 + at, `-${text}`);
  }
  for (const { line, text } of matches) lines.set(line, `:${text}`);
  const isAround = matches.some(({ before, after }) => before || after);
  let last: number | undefined;
  return [...lines]
    .toSorted(([a], [b]) => a - b)
    .flatMap(([line, text]) => {
      const isGap = isAround && last !== undefined && line > last + 1;
      last = line;
      return [...(isGap ? ['--'] : []), `${line}${text}`];
    });
}

function globbed(paths: readonly string[], { total, truncated }: Data): string[] {
  const more = truncated === true ? [`[truncated: ${paths.length} of at least ${String(total)}]`] : [];
  return [[...(paths.length === 0 ? ['[no files]'] : paths.map(nameOf)), ...more].join('\n')];
}

/** The content, with a note on the number of lines if it is not the whole file. */
function read(content: string, { lines, size, encoding, mimeType, decoded }: Data): string[] {
  if (encoding === 'base64') return [content, `[base64 of ${String(size)} bytes, ${String(mimeType)}]`];
  if (size === 0) return ['[the file is empty]'];
  const shown = content.split('\n').length - (content.endsWith('\n') ? 1 : 0);
  return [
    content,
    ...(shown === lines ? [] : [`[${content === '' ? 0 : shown} of ${String(lines)} lines]`]),
    ...(typeof decoded === 'string' ? [`[decoded from ${decoded}]`] : []),
  ];
}

const written = ({ path, created, bytesWritten }: Data): string =>
  `${created === true ? 'created' : 'replaced'} ${nameOf(String(path))}, ${String(bytesWritten)} bytes`;

function diffed(diff: string, { withheld, truncated }: Data): string[] {
  return [
    diff === '' ? '[no differences]' : diff,
    ...(isNames(withheld) && withheld.length > 0
      ? [`[withheld by the policy: ${withheld.map(nameOf).join(', ')}]`]
      : []),
    ...(truncated === true ? ['[truncated: ask for one path]'] : []),
  ];
}

/** The facts of a picture: a model that can see gets the picture itself beside them. */
function pictured(base64: string, { image: _, encoding: __, trust: ___, ...facts }: Data): string {
  return `[picture of ${base64.length} base64 characters] ${toJson(withoutNothing(facts))}`;
}

/** The data without empty lists, zeros and false values. */
const withoutNothing = (data: Data): Data =>
  Object.fromEntries(Object.entries(data).filter(([, it]) => (Array.isArray(it) ? it.length > 0 : Boolean(it))));

/** The text of a command's result. Our own words come last, so that no output can imitate them. */
function commandLines({ stdout, stderr, exitCode, signal }: Data): string[] | undefined {
  if (!isText(stdout) || !isText(stderr) || typeof exitCode !== 'number') return undefined;
  return [
    ...(stdout === '' ? [] : [stdout]),
    ...(stderr === '' ? [] : [`stderr:\n${stderr}`]),
    `[exit code ${exitCode}${isText(signal) ? `, ${signal}` : ''}]`,
  ];
}
