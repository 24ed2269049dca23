/** Files below a directory that globs select, in order; what .gitignore leaves out and hidden names are left out too. */
import type { Ignore } from 'ignore';
import { ToolError } from '../errors.ts';
import { type Glob, matchGlob, parseGlob } from '../glob.ts';
import type { CheckedDirectory, ToolContext } from './tool.ts';

export interface Selecting {
  /** Directory, relative to the workspace root. */
  readonly path: string;
  /** Globs of which one must match; one without wildcards selects files that are hidden or ignored too. */
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

/** Entries between two looks at the abort signal; about 10 ms of work. */
const ENTRIES_PER_BREATH = 1000;
/** A larger .gitignore is none that somebody wrote. */
const GITIGNORE_BYTES_MAX = 256 * 1024;
const GIT = '.git';

/** Paths of files, relative to the workspace root. Throws FILE_LIMIT after `listScanMax` entries. */
export async function* selectFiles(selecting: Selecting, ctx: ToolContext): AsyncGenerator<string> {
  const { default: ignore } = await import('ignore');
  const selection = new Selection(selecting, ctx, ignore);
  const base = toSegments(selecting.path);
  for (let depth = 0; depth < base.length; depth++) selection.readIgnores(base.slice(0, depth).join('/'));
  using directory = ctx.openDirectory(selecting.path);
  yield* selection.visit(directory, { path: base.join('/'), below: '' });
}

interface IgnoreFile {
  /** Directory that it stands in; '' for the root. */
  readonly folder: string;
  readonly rules: Ignore;
}

interface At {
  /** From the workspace root; '' for itself. */
  readonly path: string;
  /** From the directory that is searched. */
  readonly below: string;
}

class Selection {
  readonly #ctx: ToolContext;
  readonly #makeIgnore: () => Ignore;
  readonly #include: readonly { glob: Glob; named: boolean }[];
  readonly #exclude: readonly Glob[];
  readonly #ignores: IgnoreFile[] = [];
  readonly #named: boolean;
  #scanned = 0;

  constructor({ include, exclude }: Selecting, ctx: ToolContext, makeIgnore: () => Ignore) {
    this.#ctx = ctx;
    this.#makeIgnore = makeIgnore;
    this.#include = include.map((it) => ({ glob: parseGlob(it), named: !/[*?[{]/.test(it) }));
    this.#exclude = exclude.map(parseGlob);
    this.#named = this.#include.some((it) => it.named);
  }

  async *visit(directory: CheckedDirectory, at: At): AsyncGenerator<string> {
    const before = this.#ignores.length;
    this.readIgnores(at.path);
    for (const { name, type } of directory.entries().sort((a, b) => (a.name < b.name ? -1 : 1))) {
      await this.#count();
      const here = { path: join(at.path, name), below: join(at.below, name) };
      const isDirectory = type === 'directory';
      const skipped = name.startsWith('.') || this.#ignored(here.path, isDirectory);
      if (name === GIT || (skipped && !this.#named) || this.#excluded(name, here.below, isDirectory)) continue;
      if (type === 'file' && this.#wanted(name, here.below, skipped)) yield here.path;
      if (!isDirectory) continue;
      using child = directory.directory(name);
      if (child) yield* this.visit(child, here);
    }
    this.#ignores.length = before;
  }

  /** Adds the .gitignore of a directory, if it has one that may be read. */
  readIgnores(folder: string): void {
    try {
      using file = this.#ctx.open(join(folder, '.gitignore'));
      if (file.size > GITIGNORE_BYTES_MAX) return;
      this.#ignores.push({ folder, rules: this.#makeIgnore().add(file.bytes().toString('utf8')) });
    } catch (error) {
      // None there, or none that is to be read.
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

  /** As git does: the innermost file that says something decides. */
  #ignored(path: string, isDirectory: boolean): boolean {
    for (const { folder, rules } of this.#ignores.toReversed()) {
      const inside = folder === '' ? path : path.slice(folder.length + 1);
      const { ignored, unignored } = rules.test(isDirectory ? `${inside}/` : inside);
      if (ignored || unignored) return ignored;
    }
    return false;
  }

  #excluded(name: string, below: string, isDirectory: boolean): boolean {
    return this.#exclude.some((it) => matchGlob(it, name, isDirectory ? `${below}/` : below));
  }

  #wanted(name: string, below: string, skipped: boolean): boolean {
    return this.#include.some((it) => (it.named || !skipped) && matchGlob(it.glob, name, below));
  }
}

const toSegments = (path: string): string[] => path.split('/').filter((it) => it !== '' && it !== '.');
const join = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);
