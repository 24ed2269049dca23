import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { matchGlob, parseGlob, toSegments } from '../../base/text/glob.ts';
import { details, shownDetails } from '../details.ts';
import { rare } from '../rare-parameters.ts';
import { type CheckedDirectory, defineTool, type ToolContext, workspacePath } from '../tool.ts';

/** Entries between two checks of the abort signal; about 10 ms of work. */
const ENTRIES_PER_BREATH = 1000;

const input = z.strictObject({
  path: workspacePath('Directory.').default('.'),
  recursive: z.boolean().default(false).describe('Also subdirectories.'),
  maxDepth: z.int().min(1).max(1000).optional().describe('Levels when recursive.'),
  includeHidden: z.boolean().default(false).describe('Also names that begin with a dot.'),
  pattern: rare(
    z
      .string()
      .min(1)
      .max(1024)
      .optional()
      .describe('Glob that entries must match: * ? [a-z] {a,b} **; against the name, or with a / against the path.'),
  ),
  sortBy: z.enum(['name', 'size', 'modified']).default('name').describe('The largest or newest first.'),
  files: rare(z.boolean().default(false).describe('Also give the paths of files as a separate list.')),
  sizes: rare(z.boolean().default(true).describe('Whether size, mode and time of each entry are looked up.')),
  details,
});

/** Callers of an alias expect `files` in the answer. */
const withFiles = input.extend({
  files: z.boolean().default(true).describe('Whether files lists the paths of files.'),
});

const entry = z.strictObject({
  path: z.string().describe('Relative to the workspace root.'),
  type: z.enum(['file', 'directory', 'symlink', 'other']),
  size: z.int().nonnegative().optional(),
  mode: z.string().optional().describe('Permission bits, octal.'),
  modifiedAt: z.string().optional().describe('ISO 8601.'),
});
type ListedEntry = z.output<typeof entry>;

export default defineTool({
  name: 'file_list',
  title: 'List a directory',
  summary:
    'List a directory: names with / for directories and @ for links, which are not followed, and sizes of files in bytes. At most 5 000.',
  notes: '`truncated` says whether there were more entries.',
  capabilities: [{ action: 'list', description: 'Lists the entries of a directory, recursively where asked.' }],
  category: 'filesystem',
  tier: 'read_only',
  idempotent: true,
  cacheable: true,
  effects: ({ path }) => [{ kind: 'read', target: path }],
  input,
  output: z.strictObject({
    entries: z.array(entry),
    files: z.array(z.string()).optional().describe('Paths of the entries that are files, if asked for.'),
    count: z.int().nonnegative().describe('Entries returned.'),
    totalSize: z.int().nonnegative().describe('Bytes of the files returned; 0 without sizes.'),
    truncated: z.boolean(),
    details: shownDetails,
  }),
  examples: [
    { input: { path: 'docs' }, output: { count: 1, truncated: false } },
    { input: { path: '/etc' }, error: 'ACCESS_DENIED' },
    { input: { path: 'notes.txt' }, error: 'UNSUPPORTED' },
  ],
  aliases: [
    { name: 'list_files', input: withFiles },
    { name: 'list_directory', input: withFiles },
    {
      name: 'list',
      input: withFiles.omit({ includeHidden: true }).extend({ showHidden: input.shape.includeHidden }),
      toInput: ({ showHidden, ...rest }) => ({ includeHidden: showHidden, ...rest }),
    },
  ],

  async run({ path, recursive, maxDepth, includeHidden, pattern, sortBy, sizes, files, details: detailed }, ctx) {
    if (sortBy !== 'name' && !sizes) {
      throw new ToolError('INPUT_INVALID', `sortBy ${sortBy} needs sizes: true, since it sorts by what sizes looks up`);
    }
    const glob = pattern === undefined ? undefined : parseGlob(pattern);
    const base = normal(path);
    const walk = new DirectoryWalk(ctx, sizes, (name, fromBase) => {
      if (name.startsWith('.') && !includeHidden) return 'skip';
      return glob === undefined || matchGlob(glob, name, fromBase) ? 'take' : 'pass';
    });
    using directory = ctx.openDirectory(path);
    await walk.visit(directory, { base, below: '' }, recursive ? (maxDepth ?? Infinity) : 1);
    const { entries, truncated } = walk;
    if (sortBy === 'size') entries.sort((a, b) => (b.size ?? 0) - (a.size ?? 0));
    if (sortBy === 'modified') entries.sort((a, b) => compare(b.modifiedAt ?? '', a.modifiedAt ?? ''));
    const totalSize = entries.reduce((sum, it) => sum + (it.type === 'file' ? (it.size ?? 0) : 0), 0);
    const named = files ? { files: entries.filter((it) => it.type === 'file').map((it) => it.path) } : {};
    return {
      entries,
      ...named,
      count: entries.length,
      totalSize,
      truncated,
      ...(detailed && { details: true as const }),
    };
  },
});

type EntryFilter = (name: string, fromBase: string) => 'take' | 'pass' | 'skip';

/** Walks depth first in the order of names, so that a bound always cuts off the same entries. */
class DirectoryWalk {
  readonly entries: ListedEntry[] = [];
  truncated = false;
  readonly #ctx: ToolContext;
  readonly #sizes: boolean;
  readonly #filter: EntryFilter;
  #scanned = 0;

  constructor(ctx: ToolContext, sizes: boolean, wanted: EntryFilter) {
    this.#ctx = ctx;
    this.#sizes = sizes;
    this.#filter = wanted;
  }

  async visit(directory: CheckedDirectory, at: { base: string; below: string }, depth: number): Promise<void> {
    const { listEntriesMax, listScanMax } = this.#ctx.limits;
    const found = directory.entries().sort((a, b) => compare(a.name, b.name));
    for (const { name, type } of found) {
      if (++this.#scanned % ENTRIES_PER_BREATH === 0) await this.#ctx.breathe();
      const below = join(at.below, name);
      const wanted = this.#filter(name, type === 'directory' ? `${below}/` : below);
      if (wanted === 'skip') continue;
      if (this.entries.length >= listEntriesMax || this.#scanned > listScanMax) {
        this.truncated = true;
        return;
      }
      if (wanted === 'take') this.#addEntry(directory, name, { path: join(at.base, below), type });
      if (type !== 'directory' || depth <= 1) continue;
      using child = directory.directory(name);
      if (child) await this.visit(child, { base: at.base, below }, depth - 1);
      if (this.truncated) return;
    }
  }

  #addEntry(directory: CheckedDirectory, name: string, entry: ListedEntry): void {
    const stat = this.#sizes ? statOf(directory, name) : {};
    if (stat) this.entries.push({ ...entry, ...stat });
  }
}

/** An entry's facts; empty if the directory's permissions do not allow more, undefined if the entry is gone. */
function statOf(directory: CheckedDirectory, name: string): ReturnType<CheckedDirectory['stat']> | object {
  try {
    return directory.stat(name);
  } catch (error) {
    if (error instanceof ToolError && error.code === 'ACCESS_DENIED') return {};
    throw error;
  }
}

const normal = (path: string): string => toSegments(path).join('/');
const join = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
