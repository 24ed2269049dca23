/** A search of one open directory or file with ripgrep; results that path rules refuse are left out. */
import * as fs from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { matchGlob, parseSearchGlob, searchForms, toSegments, unfoldBraces } from '../../src/base/text/glob.ts';
import type { CheckedSearch, ContentQuery, SearchScope } from '../../src/tools/tool.ts';
import { below, type OpenedPath, toAccessError } from '../context/anchor.ts';
import type { PathRules } from '../context/path-rules.ts';
import { FoundLines, type Subject } from './found-lines.ts';
import { MatchRecords } from './match-records.ts';
import { NulFields } from './nul-fields.ts';
import { INHERITED_FILE, type Ripgrep } from './ripgrep.ts';

export interface SearchOptions {
  /** The search closes it. */
  readonly opened: OpenedPath;
  /** Path as the caller named it. */
  readonly path: string;
  /** Absolute path. */
  readonly workspace: string;
  readonly rules: PathRules;
  readonly ripgrep: Ripgrep;
  readonly limits: Limits;
  readonly signal: AbortSignal;
}

/** Searches the open directory or file, and closes `fd` at the end. Throws UNSUPPORTED, FILE_LIMIT after closing it. */
export function searchAt(options: SearchOptions): CheckedSearch {
  const { opened, path, limits } = options;
  const stat = fs.fstatSync(opened.fd);
  try {
    if (!stat.isFile() && !stat.isDirectory())
      throw new ToolError('UNSUPPORTED', `\`${path}\` is neither a file nor a directory`);
    if (stat.isFile() && stat.size > limits.fileBytesMax)
      throw new ToolError(
        'FILE_LIMIT',
        `\`${path}\` is ${stat.size} bytes; at most ${limits.fileBytesMax} are searched`,
        {
          suggestion: 'Search it with a command.',
          details: { limit: limits.fileBytesMax, used: stat.size, enforcedBy: 'tool' },
        },
      );
    // ripgrep starts in the directory, which needs its search permission.
    if (stat.isDirectory()) fs.lstatSync(below(opened.fd, '.'));
  } catch (error) {
    fs.closeSync(opened.fd);
    throw toAccessError(error, path);
  }
  return new Search(options, stat.isFile()) as unknown as CheckedSearch;
}

class Search implements Pick<CheckedSearch, 'files' | 'counts' | 'lines' | 'stat'>, Disposable {
  readonly path: string;
  readonly #options: SearchOptions;
  readonly #isFile: boolean;
  /** Path relative to the workspace root, as the caller named it; '' for the root. */
  readonly #named: string;
  readonly #isRefused: (path: string) => boolean;

  constructor(options: SearchOptions, isFile: boolean) {
    this.#options = options;
    this.path = options.path;
    this.#isFile = isFile;
    this.#named = plain(options.path);
    this.#isRefused = refusals(options, this.#named);
  }

  async files(scope: SearchScope, take: (path: string) => boolean): Promise<{ tooDeep: number }> {
    if (this.#isFile)
      throw new ToolError('UNSUPPORTED', `\`${this.#options.path}\` is not a directory`, {
        suggestion: 'Read it with file_read.',
      });
    const isWanted = scopeFilter(scope);
    const fields = new NulFields(1, ([path = '']) => !this.#isShown(path, isWanted) || take(this.#pathOf(path)));
    let tooDeep = 0;
    const onTooDeep = (folders: number) => {
      tooDeep += folders;
    };
    await this.#run(['--files', '--null', ...toArgs(scope)], (chunk) => fields.push(chunk), onTooDeep);
    return { tooDeep };
  }

  counts(query: ContentQuery, take: (path: string, matches: number) => boolean): Promise<void> {
    const isWanted = scopeFilter(query);
    const fields = new NulFields(
      2,
      ([path = '', count]) => !this.#isShown(path, isWanted) || take(this.#pathOf(path), Number(count)),
    );
    return this.#run(['--count-matches', '--with-filename', '--null', ...this.#toArgs(query)], (chunk) =>
      fields.push(chunk),
    );
  }

  async lines(query: ContentQuery & { contextLines: number; maxResults: number }): ReturnType<CheckedSearch['lines']> {
    const isWanted = scopeFilter(query);
    const { contextLines, maxResults } = query;
    const found = new FoundLines({ contextLines, maxResults, limits: this.#options.limits });
    const shown = new Map<string, string | undefined>();
    const shownAs = (path: string) => {
      if (!shown.has(path)) shown.set(path, this.#isShown(path, isWanted) ? this.#pathOf(path) : undefined);
      return shown.get(path);
    };
    const records = new MatchRecords((record) => {
      const file = record.path === undefined ? undefined : shownAs(record.path);
      if (record.type === 'end') shown.clear();
      if (file === undefined) return true;
      return record.type === 'end' ? found.end(file, record.binary) : found.add(file, record);
    });
    const context = contextLines > 0 ? [`--context=${contextLines}`] : [];
    const args = ['--json', '--binary', ...context, ...this.#toArgs(query)];
    const searching = this.#run(args, (chunk) => records.push(chunk));
    // Both use the open directory, so neither may outlive the call.
    const [subject, searched] = await Promise.allSettled([this.#subjectOf(query, found), searching]);
    if (searched.status === 'rejected') throw searched.reason;
    if (subject.status === 'rejected') throw subject.reason;
    return found.result(subject.value);
  }

  /** How many files a search for contents looks at, and what it passes over; less once it has found enough. */
  async #subjectOf(scope: SearchScope, found: FoundLines): Promise<Subject> {
    let [files, tooLarge] = [0, 0];
    if (this.#isFile) return { files: 1, tooLarge, tooDeep: 0 };
    const { tooDeep } = await this.files(scope, (path) => {
      if ((this.stat(path)?.size ?? 0) > this.#options.limits.fileBytesMax) tooLarge += 1;
      else files += 1;
      return !found.isFull;
    });
    return { files, tooLarge, tooDeep };
  }

  stat(path: string): { size: number; modifiedMs: number } | undefined {
    const from = this.#named === '' ? path : path.slice(this.#named.length + 1);
    try {
      const stat = this.#isFile
        ? fs.fstatSync(this.#options.opened.fd)
        : fs.lstatSync(below(this.#options.opened.fd, from));
      return { size: stat.size, modifiedMs: stat.mtimeMs };
    } catch {
      return undefined; // ENOENT, ENOTDIR: gone meanwhile.
    }
  }

  [Symbol.dispose](): void {
    fs.closeSync(this.#options.opened.fd);
  }

  #toArgs({ pattern, literal, caseSensitive, ...scope }: ContentQuery): string[] {
    return [
      ...['--crlf', `--max-filesize=${this.#options.limits.fileBytesMax}`],
      ...(literal ? ['--fixed-strings'] : []),
      caseSensitive ? '--case-sensitive' : '--ignore-case',
      ...(this.#isFile ? [] : toArgs(scope)),
      ...['-e', pattern],
    ];
  }

  #run(
    args: readonly string[],
    onData: (chunk: Buffer) => boolean,
    onTooDeep?: (folders: number) => void,
  ): Promise<void> {
    const { ripgrep, opened, signal } = this.#options;
    return ripgrep.run({
      args: [...args, '--', this.#isFile ? INHERITED_FILE : './'],
      ...(this.#isFile ? { file: opened.fd } : { directory: opened.fd }),
      onTooDeep,
      signal,
      onData,
    });
  }

  /** Turns a path from ripgrep into one relative to the workspace root. */
  #pathOf(path: string): string {
    return this.#isFile ? this.#named : join(this.#named, path);
  }

  #isShown(path: string, isWanted: (path: string) => boolean): boolean {
    if (this.#isFile) return true;
    const from = normalize(path);
    return isWanted(from) && !this.#isRefused(from);
  }
}

const plain = (path: string): string => toSegments(normalize(path)).join('/');

/**
 * A test for paths below the search that a rule refuses, or whose parents it refuses, under the caller's name or the
 * real one. ripgrep never sees what the host's mounts hide; this test covers `ask` rules and hosts without masks.
 */
function refusals({ rules, opened, workspace }: SearchOptions, named: string): (path: string) => boolean {
  const real = relative(workspace, opened.realPath);
  const tests = [...new Set([named, real])].map((base) => {
    const isRefused = rules.refusedBelow(base || '.');
    const directories = new Map<string, boolean>([['.', false]]);
    const isClosed = (directory: string): boolean => {
      const known = directories.get(directory);
      if (known !== undefined) return known;
      const closed = isClosed(dirname(directory)) || isRefused(join(base, directory));
      directories.set(directory, closed);
      return closed;
    };
    return (path: string) => isClosed(dirname(path)) || isRefused(join(base, path));
  });
  return (path) => tests.some((it) => it(path));
}

/** Whether a glob includes hidden files: one of its segments begins with a dot. */
const namesHidden = (glob: string): boolean =>
  unfoldBraces(glob).some((it) => toSegments(it).some((segment) => segment.startsWith('.') && segment !== '..'));

/**
 * A test for wanted paths. ripgrep's `-g` would include files that .gitignore leaves out (`node_modules` for `**`),
 * so globs are tested here, and ripgrep only gets the extension common to all matches, which saves it files.
 */
function scopeFilter({ include, extension }: SearchScope): (path: string) => boolean {
  const glob = include === undefined ? undefined : parseSearchGlob(include);
  const hidden = include !== undefined && namesHidden(include);
  const ending = extension === undefined ? '' : `.${extension}`;
  return (path) => {
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (!hidden && name.startsWith('.')) return false;
    return name.endsWith(ending) && (glob === undefined || matchGlob(glob, name, path));
  };
}

/** Extensions for which ripgrep's globs and ours agree. */
const PLAIN_NAME = /^[\w.*-]*$/;

function toArgs({ include, exclude = [], extension, recursive = true }: SearchScope): string[] {
  const last = include === undefined ? '' : (toSegments(include).at(-1) ?? '');
  const name = extension === undefined ? last : `*.${extension}`;
  const prefilter = PLAIN_NAME.test(name) && !/^\**$/.test(name) && !name.includes('**');
  return [
    ...(include !== undefined && namesHidden(include) ? ['--hidden', '--glob=!.git'] : []),
    ...(recursive ? [] : ['--max-depth=1']),
    ...(prefilter ? [`--type-add=wanted:${name}`, '--type=wanted'] : []),
    // A second `!` would turn it into an include.
    ...exclude.flatMap(searchForms).map((it) => `--glob=!${it.replace(/^!/, '\\!')}`),
  ];
}
