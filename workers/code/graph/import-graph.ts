/** The imports between the files of a directory, and the cache by which an unchanged file is not parsed again. */
import { dirname, join } from 'node:path';
import type { Limits } from '../../../src/base/limits.ts';
import type { CodeExport, CodeImport, GraphEdge } from '../../../src/tools/source/source-code.ts';
import type { SyntaxParser } from '../../syntax-parser.ts';
import { grammarOf } from '../code-languages.ts';
import type { SourceFiles } from '../source-files.ts';
import { foreignTargets, type KnownFiles } from './foreign-modules.ts';
import { ModuleCandidates, packageOf, plainTarget, relativeTo } from './module-candidates.ts';
import type { ProjectConfig } from './project-config.ts';
import type { Candidates } from './resolve.ts';

export interface ModuleImports {
  readonly imports: readonly CodeImport[];
  readonly exports: readonly CodeExport[];
}

/** What became of one import: files of the graph, the name of a module of others, or why it has no file. */
type Resolution =
  | { readonly targets: readonly string[] }
  | { readonly external: string }
  | { readonly unresolved: string }
  | { readonly asset: true };

export interface ImportGraph {
  readonly tables: ReadonlyMap<string, ModuleImports>;
  readonly resolutions: ReadonlyMap<string, readonly Resolution[]>;
  /** One edge for each imported file, by importing file. */
  readonly edges: ReadonlyMap<string, readonly GraphEdge[]>;
  readonly configs: ReadonlyMap<string, ProjectConfig>;
}

/** What a thread keeps of the last graphs; every entry is checked by its stamp before it is used. */
export class GraphCache {
  readonly tables = new Map<string, { readonly stamp: string; readonly table: ModuleImports }>();
  readonly configs = new Map<string, { readonly stamp: string; readonly config: ProjectConfig }>();
  readonly resolutions = new Map<string, { readonly stamp: string; readonly found: readonly Resolution[] }>();
  /** The names of all files and the stamps of all configs: where they differ, modules may lie elsewhere. */
  key = '';
}

export interface ImportGraphOptions {
  /** Absolute path. */
  readonly workspace: string;
  readonly files: SourceFiles;
  readonly cache: GraphCache;
  readonly parser: SyntaxParser;
  readonly limits: Limits;
  readonly signal: AbortSignal;
  breathe(): Promise<void>;
}

const isConfig = (path: string): boolean => /(^|\/)([tj]sconfig[^/]*\.json|package\.json|go\.mod)$/.test(path);
const isScript = (path: string): boolean => /\.[mc]?[tj]sx?$/.test(path);

export async function importGraph(options: ImportGraphOptions): Promise<ImportGraph> {
  const { files, cache } = options;
  const stamps = await files.list((path) => grammarOf(path) !== undefined || isConfig(path));
  const sources = new Map([...stamps].filter(([path]) => !isConfig(path)));
  const configStamps = new Map([...stamps].filter(([path]) => isConfig(path)));
  const tables = await tablesOf(options, sources);
  const configs = await configsOf(options, configStamps);
  const key = JSON.stringify([[...sources.keys()], [...configStamps]]);
  if (cache.key !== key) cache.resolutions.clear();
  cache.key = key;
  const resolutions = await resolutionsOf(options, { sources, tables, configs });
  await options.breathe();
  return { tables, resolutions, configs, edges: edgesOf(tables, resolutions) };
}

/** The imports and exports of each source; those of unchanged files are kept. */
async function tablesOf(
  { files, cache }: ImportGraphOptions,
  sources: ReadonlyMap<string, string>,
): Promise<Map<string, ModuleImports>> {
  const changed = [...sources].filter(([path, stamp]) => cache.tables.get(path)?.stamp !== stamp).map(([path]) => path);
  for (const path of [...cache.tables.keys(), ...changed])
    if (cache.tables.get(path)?.stamp !== sources.get(path)) cache.tables.delete(path);
  const take = (path: string, { imports, exports }: ModuleImports) =>
    void cache.tables.set(path, { stamp: sources.get(path) ?? '', table: { imports, exports } });
  await files.inspect('modules', changed.filter(isScript), take);
  await files.inspect(
    'outline',
    changed.filter((it) => !isScript(it)),
    take,
  );
  return new Map(
    [...sources.keys()].flatMap((it) => {
      const kept = cache.tables.get(it);
      return kept ? [[it, kept.table]] : [];
    }),
  );
}

async function configsOf(
  { files, cache }: ImportGraphOptions,
  stamps: ReadonlyMap<string, string>,
): Promise<Map<string, ProjectConfig>> {
  const changed = [...stamps].filter(([path, stamp]) => cache.configs.get(path)?.stamp !== stamp).map(([path]) => path);
  for (const path of [...cache.configs.keys(), ...changed])
    if (cache.configs.get(path)?.stamp !== stamps.get(path)) cache.configs.delete(path);
  await files.inspect('config', changed, (path, config) => {
    cache.configs.set(path, { stamp: stamps.get(path) ?? '', config });
  });
  return new Map([...cache.configs].map(([path, { config }]) => [path, config]));
}

interface Known {
  readonly sources: ReadonlyMap<string, string>;
  readonly tables: ReadonlyMap<string, ModuleImports>;
  readonly configs: ReadonlyMap<string, ProjectConfig>;
}

async function resolutionsOf(options: ImportGraphOptions, known: Known): Promise<Map<string, readonly Resolution[]>> {
  const { cache, workspace, limits, parser, signal } = options;
  const { sources, tables, configs } = known;
  const candidates = new ModuleCandidates(workspace, configs, limits);
  const files: KnownFiles = { files: new Set(sources.keys()), byDirectory: byDirectory(sources.keys()), configs };
  const wanted = [...tables].filter(([path]) => cache.resolutions.get(path)?.stamp !== sources.get(path));
  const asked: { readonly file: string; readonly module: string; readonly where: Candidates }[] = [];
  for (const [file, { imports }] of wanted)
    for (const { module } of isScript(file) ? imports : []) {
      const where = candidates.of(file, module);
      if (where && where.length > 0) asked.push({ file, module, where });
    }
  const answers =
    asked.length === 0
      ? []
      : await parser.resolve(
          asked.map((it) => it.where),
          signal,
        );
  const found = new Map(asked.map(({ file, module }, at) => [`${file}\0${module}`, answers[at] ?? null]));
  for (const [file, { imports }] of wanted) {
    const resolved = imports.map((it): Resolution => {
      if (!isScript(file)) return foreignResolution(file, it, files);
      const where = candidates.of(file, it.module);
      if (where === undefined) return { external: it.module.startsWith('node:') ? it.module : packageOf(it.module) };
      const path = found.get(`${file}\0${it.module}`);
      if (where.length === 0) return { unresolved: 'It lies outside of the workspace.' };
      if (typeof path === 'string') return toResolution(relativeTo(workspace, path), sources);
      const plain = it.module.startsWith('.') ? plainTarget(file, it.module, sources) : undefined;
      if (plain !== undefined) return { targets: [plain] };
      const isFile = /^[.#/]/.test(it.module) || candidates.isMapped(file, it.module);
      return isFile ? { unresolved: 'No such file.' } : { external: packageOf(it.module) };
    });
    cache.resolutions.set(file, { stamp: sources.get(file) ?? '', found: resolved });
  }
  return new Map([...tables.keys()].map((it) => [it, cache.resolutions.get(it)?.found ?? []]));
}

function toResolution(path: string | undefined, sources: ReadonlyMap<string, string>): Resolution {
  if (path === undefined) return { unresolved: 'It lies outside of the workspace.' };
  if (sources.has(path)) return { targets: [path] };
  if (/(^|\/)node_modules\//.test(path)) return { external: packageOf(path.replace(/^.*node_modules\//, '')) };
  if (grammarOf(path) === undefined) return { asset: true };
  return {
    unresolved: 'The file is not shown: it is ignored by git, hidden, refused by the policy, or not in `path`.',
  };
}

function foreignResolution(file: string, it: CodeImport, known: KnownFiles): Resolution {
  const targets = foreignTargets(file, it, known).filter((path) => path !== file);
  if (targets.length > 0) return { targets };
  const isOwn = /^(\.|crate(::|$)|self::|super(::|$))/.test(it.module);
  if (!isOwn) return { external: file.endsWith('.go') ? it.module : (it.module.split(/::|\./)[0] ?? it.module) };
  // A Rust path may name what is in a file that is known already, and Python's `.` the package itself.
  return { asset: true };
}

function byDirectory(paths: Iterable<string>): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const it of paths) {
    const directory = dirname(it);
    const files = found.get(directory);
    if (files) files.push(it);
    else found.set(directory, [it]);
  }
  return found;
}

function edgesOf(
  tables: ImportGraph['tables'],
  resolutions: ImportGraph['resolutions'],
): Map<string, readonly GraphEdge[]> {
  const edges = new Map<string, readonly GraphEdge[]>();
  for (const [from, { imports }] of tables) {
    const own = new Map<string, GraphEdge>();
    for (const [at, { line, typeOnly }] of imports.entries()) {
      const resolution = resolutions.get(from)?.[at];
      for (const to of resolution && 'targets' in resolution ? resolution.targets : []) {
        const known = own.get(to);
        own.set(to, known ? { ...known, typeOnly: known.typeOnly && typeOnly } : { from, to, line, typeOnly });
      }
    }
    edges.set(
      from,
      [...own.values()].sort((a, b) => (a.to < b.to ? -1 : 1)),
    );
  }
  return edges;
}

/** A path as the graph names it. */
export const plainPath = (path: string): string => join('.', path);
