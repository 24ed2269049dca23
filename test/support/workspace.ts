/** Makes a workspace with a worker's context, without a daemon: tests what tools do to files, at full speed. */
import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type * as z from 'zod';
import { defaultLimits, type Limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import type { Rule } from '../../src/policy/schema.ts';
import { NO_MASKS } from '../../src/sandbox/masks.ts';
import type { ToolSpec } from '../../src/tools/tool.ts';
import { Anchor } from '../../workers/context/anchor.ts';
import { WorkerContext } from '../../workers/context/context.ts';
import type { ContextOptions } from '../../workers/context/context-options.ts';

export interface TestWorkspace extends Disposable {
  readonly path: string;
  /** A new context for one call. */
  context(options?: Partial<ContextOptions>): WorkerContext;
  /** Runs a tool on an input in the caller's form. */
  run<I extends z.ZodObject, O extends z.ZodObject>(
    tool: ToolSpec<I, O>,
    input: z.input<I>,
    options?: Partial<ContextOptions>,
  ): Promise<z.output<O>>;
  /** All entries with their content: text of a file, `-> target` of a link, `/` for a directory. */
  tree(): Record<string, string>;
}

export interface WorkspaceOptions {
  readonly limits?: Partial<Limits>;
  readonly rules?: readonly Rule[];
  /** Path of the workspace; by default a new temporary directory. */
  readonly at?: string;
}

export function makeWorkspace({ limits = {}, rules = [], at }: WorkspaceOptions = {}): TestWorkspace {
  const path = realpathSync(at ?? mkdtempSync(join(tmpdir(), 'ringfence-ws-')));
  const all = { ...defaultLimits, ...limits };
  const anchor = new Anchor(path, all);
  const context = (options: Partial<ContextOptions> = {}) =>
    new WorkerContext({
      workspace: path,
      anchor,
      view: { key: 'test', rules, home: '/nonexistent' },
      masks: NO_MASKS,
      limits: all,
      powers: systemPowers(),
      signal: new AbortController().signal,
      ...options,
    });
  return {
    path,
    context,
    async run(tool, input, options = {}) {
      const { run } = tool;
      if (!run) throw new Error(`${tool.name} runs in no host`);
      const parsed = tool.input.parse(input);
      if (!tool.before?.plan || (tool.tiers?.of(parsed) ?? tool.tier) === 'read_only')
        return run(parsed, context(options));
      const planned = await tool.before.plan(parsed, context(options));
      // What writes has no parsers.
      const { servers: _, ...others } = options;
      return run(parsed, context({ ...others, planned }));
    },
    tree: () => treeOf(path),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

/** Walks by hand: Node's recursive listing follows links. */
export function treeOf(path: string): Record<string, string> {
  const entries = readdirSync(path)
    .sort()
    .flatMap((name): [string, string][] => {
      const at = join(path, name);
      const stat = lstatSync(at);
      if (stat.isSymbolicLink()) return [[name, `-> ${readlinkSync(at)}`]];
      if (!stat.isDirectory()) return [[name, readFileSync(at, 'utf8')]];
      const inside = Object.entries(treeOf(at)).map(([it, content]): [string, string] => [`${name}/${it}`, content]);
      return [[name, '/'], ...inside];
    });
  // An assignment to `__proto__` would set the prototype.
  return Object.fromEntries(entries);
}

/** The tree with the permissions of files and directories. */
export function treeWithModes(path: string): Record<string, string> {
  const entries = Object.entries(treeOf(path)).map(([name, content]) => {
    const stat = lstatSync(join(path, name));
    const mode = stat.isSymbolicLink() ? '' : `${(stat.mode & 0o7777).toString(8)} `;
    return [name, `${mode}${content}`];
  });
  return Object.fromEntries(entries);
}
