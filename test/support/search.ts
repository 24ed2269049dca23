/** Runs tools of the read_only host in this process, on a workspace of their own. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { defaultLimits, type Limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import type { Rule } from '../../src/policy/schema.ts';
import { NO_MASKS } from '../../src/sandbox/masks.ts';
import { builtinTools } from '../../src/tools/builtin.ts';
import { type Tool, tierOfCall } from '../../src/tools/tool.ts';
import { decode, encode } from '../../src/wire/protocol/codec.ts';
import { Anchor } from '../../workers/context/anchor.ts';
import { WorkerContext } from '../../workers/context/context.ts';
import { Ripgrep } from '../../workers/search/ripgrep.ts';
import { LanguageServers } from '../../workers/symbols/language-servers.ts';

export interface ToolRunOptions {
  /** Absolute path without links. */
  readonly workspace: string;
  readonly rules?: readonly Rule[];
  readonly limits?: Partial<Limits>;
  readonly signal?: AbortSignal;
}

/** Runs tools like a host but without its mounts: any refusal comes from the tools alone. */
export function toolRunner({
  workspace,
  rules = [],
  limits: some,
  signal = new AbortController().signal,
}: ToolRunOptions) {
  const limits = { ...defaultLimits, ...some };
  const powers = systemPowers();
  const anchor = new Anchor(workspace, limits);
  const view = { key: rules.length === 0 ? '' : 'rules', rules, home: '/nonexistent' };
  const ripgrep = new Ripgrep(limits, powers);
  const servers = new LanguageServers(limits, powers);
  const contextOf = (own: AbortSignal, planned?: unknown) =>
    new WorkerContext({
      planned,
      workspace,
      anchor,
      view,
      masks: NO_MASKS,
      limits,
      powers,
      signal: own,
      ripgrep,
      servers,
    });
  return {
    servers,
    /** Runs a tool; gives its data, parsed by its output schema, as it leaves a host. */
    async run<D = Record<string, never>>(
      name: keyof typeof builtinTools,
      input: Record<string, unknown>,
      own = signal,
    ): Promise<D> {
      const tool = builtinTools[name] as unknown as Tool;
      const parsed = tool.input.parse(input) as never;
      const needsPlan = tool.before?.plan && tierOfCall(tool, parsed) !== 'read_only';
      const planned = needsPlan ? await tool.before?.plan?.(parsed, contextOf(own)) : undefined;
      const data = await tool.run?.(parsed, contextOf(own, planned));
      return decode(encode(tool.output.parse(data)), limits) as D;
    },
  };
}

/**
 * A pattern, identified by a mark, with which ripgrep takes minutes on SLOW_TEXT: too many states to cache, and no
 * literal to search for first.
 */
export const slow = (mark: string) => `(?P<${mark}>a)[ab]{100}[^ab\\s]`;
export const SLOW_TEXT = Array.from(
  { length: 1000 },
  () => `${Array.from({ length: 2000 }, () => (Math.random() < 0.5 ? 'a' : 'b')).join('')}\n`,
).join('');

export interface ToolFolder extends Disposable {
  /** Holds the workspace, and room for what is outside of it. */
  readonly parent: string;
  readonly workspace: string;
  readonly tools: ReturnType<typeof toolRunner>;
}

/** An empty workspace in a new temporary folder, with its tools. */
export function toolFolder(): ToolFolder {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-tools-')));
  const workspace = join(parent, 'workspace');
  mkdirSync(workspace);
  const tools = toolRunner({ workspace });
  return {
    parent,
    workspace,
    tools,
    [Symbol.dispose]() {
      tools.servers[Symbol.dispose]();
      rmSync(parent, { recursive: true, force: true });
    },
  };
}

/** Writes files by their paths in a folder, with the folders that they need. */
export function writeFiles(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}
