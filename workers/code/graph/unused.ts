/** What may be unused: what no import reaches from entry points, tests and configuration. */
import { basename, dirname, join } from 'node:path';
import type { ImportGraphAnswer } from '../../../src/tools/source/source-code.ts';
import type { ImportGraph } from './import-graph.ts';

type Unused = Pick<ImportGraphAnswer, 'unusedFiles' | 'unusedExports'>;

const TEST =
  /(^|\/)(tests?|specs?|__tests__|__mocks__|fixtures|bench|examples?|scripts?|e2e)\/|[._-](test|spec|bench|stories|cy)\.\w+$|(^|\/)(test_\w+|\w+_test|conftest)\.\w+$/;
const CONFIG =
  /(^|\/)(\.[^/]*|[^/]*\.config|[^/]*rc|setup|gulpfile|Gruntfile|build)\.[mc]?[tj]s$|(^|\/)(setup|manage|__main__|build)\.(py|rs)$/;
const MAIN =
  /^(src\/)?(index|main|app|server|cli|mod|lib)\.\w+$|(^|\/)(main\.(go|rs|py)|lib\.rs|mod\.rs|__init__\.py)$|(^|\/)bin\/[^/]*$|\.d\.[mc]?ts$/;

export function unusedIn(graph: ImportGraph): Unused {
  const files = [...graph.tables.keys()];
  const entries = entriesOf(graph, files);
  const reached = reachedFrom(entries, graph);
  const importers = new Map<string, string>();
  for (const [from, edges] of graph.edges) for (const { to } of edges) importers.set(to, importers.get(to) ?? from);
  const unusedFiles = files
    // Go files of a package see each other without an import.
    .filter((it) => !reached.has(it) && !it.endsWith('.go'))
    .map((file) => {
      const importer = importers.get(file);
      const reason =
        importer === undefined
          ? 'Nothing imports it, and no entry point, test or configuration names it; it may be loaded by its name.'
          : `Only files that may be unused themselves import it, such as ${importer}.`;
      return { file, reason };
    });
  return { unusedFiles, unusedExports: unusedExports(graph, entries, reached) };
}

/** Files that are used without an import: named by a package.json, tests, configuration, and usual names of entries. */
function entriesOf({ configs, tables }: ImportGraph, files: readonly string[]): ReadonlySet<string> {
  const entries = new Set(files.filter((it) => TEST.test(it) || CONFIG.test(it) || MAIN.test(it)));
  for (const [path, { mentions }] of configs)
    for (const it of mentions) {
      const named = join(dirname(path), it);
      // A built file stands for its source: dist/main.js for src/entries/main.ts.
      const stem = named.replace(/\.[mc]?[tj]sx?$/, '').replace(/(^|\/)(dist|lib|build|out)\//, '$1src/');
      const inner = stem.replace(/(^|\/)src\/src\//, '$1src/').replace(/\.d$/, '');
      for (const end of ['', '.ts', '.tsx', '.js', '.mjs', '.cjs', '.mts'])
        for (const file of [named, `${inner}${end}`, `${stem}${end}`]) if (tables.has(file)) entries.add(file);
    }
  return entries;
}

function reachedFrom(entries: ReadonlySet<string>, { edges }: ImportGraph): ReadonlySet<string> {
  const reached = new Set(entries);
  for (const file of reached) for (const { to } of edges.get(file) ?? []) reached.add(to);
  return reached;
}

/**
 * Exports of TypeScript and JavaScript that no file that is used asks for by name. An export that only passes another
 * one on counts as a use where it is used itself; `*` uses all.
 */
function unusedExports(
  { tables, resolutions }: ImportGraph,
  entries: ReadonlySet<string>,
  reached: ReadonlySet<string>,
): Unused['unusedExports'] {
  const used = new Map<string, Set<string>>();
  const left: [file: string, name: string][] = [];
  const use = (file: string, name: string) => {
    const names = used.get(file) ?? new Set();
    used.set(file, names);
    if (names.has(name) || names.has('*')) return;
    names.add(name);
    left.push([file, name]);
  };
  const targetsAt = (file: string, at: number): readonly string[] => {
    const it = resolutions.get(file)?.[at];
    return it && 'targets' in it ? it.targets : [];
  };
  for (const file of reached) {
    if (entries.has(file)) use(file, '*');
    for (const [at, { kind, names }] of (tables.get(file)?.imports ?? []).entries())
      if (kind !== 'reexport') for (const to of targetsAt(file, at)) for (const name of names) use(to, name);
  }
  for (let next = left.pop(); next; next = left.pop()) {
    const [file, name] = next;
    const { imports = [], exports = [] } = tables.get(file) ?? {};
    const passed = exports.filter(
      (it) => it.from !== undefined && (name === '*' || it.name === name || it.name === '*'),
    );
    for (const [at, it] of imports.entries()) {
      const same = passed.filter((one) => one.from === it.module && one.line === it.line);
      if (it.kind !== 'reexport' || same.length === 0) continue;
      const isWhole = same.some((one) => one.name === '*');
      // An export under another name has that name here, and its own there: then all names of the line are used.
      const names = isWhole ? [name] : it.names;
      for (const to of targetsAt(file, at)) for (const one of names) use(to, one);
    }
  }
  return [...reached].sort().flatMap((file) => {
    const names = used.get(file);
    if (names?.has('*') || !/\.[mc]?[tj]sx?$/.test(file)) return [];
    return (tables.get(file)?.exports ?? [])
      .filter((it) => it.name !== '*' && !names?.has(it.name))
      .map(({ name, line }) => ({
        file,
        line,
        name,
        reason: `No file imports it from ${basename(file)}; it may be used in the file itself.`,
      }));
  });
}
