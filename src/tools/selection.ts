/** Selects files below a directory by globs, in order; leaves out hidden files and those that .gitignore excludes. */
import type { Ignore } from 'ignore';
import { ToolError } from '../base/errors.ts';
import { type Glob, matchGlob, parseGlob, searchForms, toSegments } from '../base/text/glob.ts';
import type { CheckedDirectory, ToolContext } from './tool.ts';

export interface SelectionOptions {
  /** Directory, relative to the workspace root. */
  readonly path: string;
  /** Globs, one of which must match; a glob without wildcards also selects hidden and ignored files. */
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

/** Entries between two checks of the abort signal; about 10 ms of work. */
const ENTRIES_PER_BREATH = 1000;
/** No person writes a larger .gitignore. */
const GITIGNORE_BYTES_MAX = 256 * 1024;
const GIT = '.git';

/** Yields paths of files, relative to the workspace root. Throws FILE_LIMIT after `listScanMax` entries. */
export async function* selectFiles(selecting: SelectionOptions, ctx: ToolContext): AsyncGenerator<string> {
  const { default: ignore } = await import('ignore');
  const selection = new Selection(selecting, ctx, ignore);
  const base = toSegments(selecting.path);
  for (let depth = 0; depth < base.length; depth++) selection.readIgnores(base.slice(0, depth).join('/'));
  using directory = ctx.openDirectory(selecting.path);
  yield* selection.visit(directory, { path: base.join('/'), fromBase: '' });
}

interface IgnoreFile {
  /** Directory of the file; '' for the root. */
  readonly folder: string;
  readonly rules: Ignore;
}

interface SearchPosition {
  /** Path relative to the workspace root; '' for the root itself. */
  readonly path: string;
  /** Path relative to the directory that is searched. */
  readonly fromBase: string;
}

class Selection {
  readonly #ctx: ToolContext;
  readonly #makeIgnore: () => Ignore;
  readonly #include: readonly { glob: Glob; named: boolean }[];
  readonly #exclude: readonly Glob[];
  readonly #ignores: IgnoreFile[] = [];
  readonly #named: boolean;
  #scanned = 0;

  constructor({ include, exclude }: SelectionOptions, ctx: ToolContext, makeIgnore: () => Ignore) {
    this.#ctx = ctx;
    this.#makeIgnore = makeIgnore;
    this.#include = include.flatMap(searchForms).map((it) => ({ glob: parseGlob(it), named: !/[*?[{]/.test(it) }));
    this.#exclude = exclude.flatMap(searchForms).map(parseGlob);
    this.#named = this.#include.some((it) => it.named);
  }

  async *visit(directory: CheckedDirectory, at: SearchPosition): AsyncGenerator<string> {
    const before = this.#ignores.length;
    this.readIgnores(at.path);
    for (const { name, type } of directory.entries().sort((a, b) => (a.name < b.name ? -1 : 1))) {
      await this.#count();
      const here = { path: join(at.path, name), fromBase: join(at.fromBase, name) };
      const isDirectory = type === 'directory';
      const skipped = name.startsWith('.') || this.#ignored(here.path, isDirectory);
      if (name === GIT || (skipped && !this.#named) || this.#excluded(name, here.fromBase, isDirectory)) continue;
      if (type === 'file' && this.#isIncluded(name, here.fromBase, skipped)) yield here.path;
      if (!isDirectory) continue;
      using child = directory.directory(name);
      if (child) yield* this.visit(child, here);
    }
    this.#ignores.length = before;
  }

  /** Adds the .gitignore of a directory, if there is one that the call may read. */
  readIgnores(folder: string): void {
    try {
      using file = this.#ctx.open(join(folder, '.gitignore'));
      if (file.size > GITIGNORE_BYTES_MAX) return;
      this.#ignores.push({ folder, rules: this.#makeIgnore().add(file.bytes().toString('utf8')) });
    } catch (error) {
      // No .gitignore, or one that must not be read.
      if (!(error instanceof ToolError)) throw error;
    }
  }

  async #count(): Promise<void> {
    const { listScanMax } = this.#ctx.limits;
    if (++this.#scanned % ENTRIES_PER_BREATH === 0) await this.#ctx.breathe();
    if (this.#scanned <= listScanMax) return;
    throw new ToolError('FILE_LIMIT', `more than ${listScanMax} entries were looked at`, {
      suggestion: 'Name a directory as path.',
      details: { limit: listScanMax, enforcedBy: 'tool' },
    });
  }

  /** Like git: the innermost .gitignore with a matching rule decides. */
  #ignored(path: string, isDirectory: boolean): boolean {
    for (const { folder, rules } of this.#ignores.toReversed()) {
      const inside = folder === '' ? path : path.slice(folder.length + 1);
      const { ignored, unignored } = rules.test(isDirectory ? `${inside}/` : inside);
      if (ignored || unignored) return ignored;
    }
    return false;
  }

  #excluded(name: string, fromBase: string, isDirectory: boolean): boolean {
    return this.#exclude.some((it) => matchGlob(it, name, isDirectory ? `${fromBase}/` : fromBase));
  }

  #isIncluded(name: string, fromBase: string, skipped: boolean): boolean {
    return this.#include.some((it) => (it.named || !skipped) && matchGlob(it.glob, name, fromBase));
  }
}

const join = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);
