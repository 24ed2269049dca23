import * as z from 'zod';
import { glob } from '../path-parameters.ts';
import { rare } from '../rare-parameters.ts';
import { searches } from '../search-program.ts';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({
  path: workspacePath('Directory.').default('.'),
  maxDepth: z.int().min(1).max(50).default(5).describe('Levels; the rest is counted.'),
  exclude: rare(z.array(glob()).max(50).default([]).describe('Globs of files and directories to leave out.')),
});

/** Files between two checks of the abort signal; about 10 ms of work. */
const FILES_PER_BREATH = 2000;
/** The most files of one directory that are shown; more are only counted, so that ten thousand do not fill the tree. */
const FILES_SHOWN = 40;

export default defineTool({
  ...searches,
  name: 'workspace_structure',
  title: 'Show the project tree',
  summary: 'Show a project as a tree with counts of files. Leaves out what .gitignore does and hidden files.',
  notes:
    'At most 1 000 lines. Also left out: symbolic links and directories without files. `truncated` says whether something was only counted.',
  capabilities: [{ action: 'tree', description: 'Shows directories and files as a tree with counts.' }],
  category: 'filesystem',
  effects: ({ path }) => [{ kind: 'read', target: path }],
  input,
  output: z.strictObject({
    tree: z.string().describe('A line for each directory, with the files in and below it, and for each file.'),
    files: z.int().nonnegative(),
    directories: z.int().nonnegative().describe('Directories below path that contain files.'),
    totalSize: z.int().nonnegative().describe('Bytes of the files.'),
    truncated: z.boolean(),
  }),
  examples: [
    {
      input: {},
      output: {
        tree: './ (2 files)\n├── docs/ (1 file)\n│   └── guide.md\n└── notes.txt\n',
        files: 2,
        directories: 1,
        totalSize: 42,
        truncated: false,
      },
    },
    { input: { path: '../' }, error: 'ACCESS_DENIED' },
    { input: { path: 'notes.txt' }, error: 'UNSUPPORTED' },
  ],

  async run({ path, maxDepth, exclude }, ctx) {
    using search = ctx.search(path);
    const base = path
      .split('/')
      .filter((it) => it !== '' && it !== '.')
      .join('/');
    const paths: string[] = [];
    const root = new DirectoryNode();
    let isFull = false;
    await search.files({ exclude }, (it) => {
      isFull = paths.length >= ctx.limits.searchPathsMax;
      if (isFull) return false;
      paths.push(it);
      root.add(base === '' ? it : it.slice(base.length + 1));
      return true;
    });
    let totalSize = 0;
    for (const [at, it] of paths.entries()) {
      if (at % FILES_PER_BREATH === 0) await ctx.breathe();
      totalSize += search.stat(it)?.size ?? 0;
    }
    const drawing = new TreeDrawing(maxDepth, ctx.limits.treeLinesMax);
    const tree = drawing.draw(`${base === '' ? '.' : base}/`, root);
    return { tree, files: root.files, directories: root.descendants, totalSize, truncated: isFull || drawing.cut };
  },
});

class DirectoryNode {
  readonly directories = new Map<string, DirectoryNode>();
  readonly names: string[] = [];
  /** Files in this directory and below. */
  files = 0;
  descendants = 0;

  /** Adds a file; returns how many directories were made for it. */
  add(path: string): number {
    this.files += 1;
    const slash = path.indexOf('/');
    if (slash < 0) {
      this.names.push(path);
      return 0;
    }
    const name = path.slice(0, slash);
    const known = this.directories.get(name);
    const child = known ?? new DirectoryNode();
    this.directories.set(name, child);
    const made = child.add(path.slice(slash + 1)) + (known ? 0 : 1);
    this.descendants += made;
    return made;
  }
}

class TreeDrawing {
  cut = false;
  readonly #maxDepth: number;
  readonly #linesMax: number;
  readonly #lines: string[] = [];

  constructor(maxDepth: number, linesMax: number) {
    this.#maxDepth = maxDepth;
    this.#linesMax = linesMax;
  }

  draw(name: string, root: DirectoryNode): string {
    this.#lines.push(`${name} (${counted(root.files)})`);
    this.#drawDirectory(root, '', 1);
    return `${this.#lines.join('\n')}\n`;
  }

  #drawDirectory(directory: DirectoryNode, indent: string, depth: number): void {
    if (depth > this.#maxDepth) {
      this.cut = true;
      return;
    }
    const directories = [...directory.directories].sort(([a], [b]) => (a < b ? -1 : 1));
    const names = directory.names.sort().slice(0, FILES_SHOWN);
    const left = directory.names.length - names.length;
    const entries: [text: string, child?: DirectoryNode][] = [
      ...directories.map(([name, it]): [string, DirectoryNode] => [
        `${withoutControls(name)}/ (${counted(it.files)})`,
        it,
      ]),
      ...names.map((name): [string] => [withoutControls(name)]),
      ...(left > 0 ? [[`… ${left} more`] as [string]] : []),
    ];
    this.cut ||= left > 0;
    for (const [at, [text, child]] of entries.entries()) {
      if (this.#lines.length >= this.#linesMax) {
        this.cut = true;
        return;
      }
      const isLast = at === entries.length - 1;
      this.#lines.push(`${indent}${isLast ? '└── ' : '├── '}${text}`);
      if (child) this.#drawDirectory(child, `${indent}${isLast ? '    ' : '│   '}`, depth + 1);
    }
  }
}

const counted = (files: number): string => `${files} ${files === 1 ? 'file' : 'files'}`;
/** Replaces control characters: a name with a line break would draw a tree of its own. */
const withoutControls = (name: string): string => name.replace(/[\p{Cc}\u2028\u2029]/gu, '�');
