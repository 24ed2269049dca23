/** Puts together what the parser child says of the sources of a directory. */
import type { Limits } from '../../src/base/limits.ts';
import {
  type Analysis,
  type AnalysisQuery,
  type Complexity,
  type Duplicate,
  SEVERITIES,
  type SecurityFinding,
} from '../../src/tools/source/analysis.ts';
import { duplicatesIn, type FileTokens, toFileTokens } from './duplicates.ts';
import { circlesOf } from './graph/circles.ts';
import type { ImportGraph } from './graph/import-graph.ts';
import type { SourceFiles } from './source-files.ts';

export async function complexityIn(
  files: SourceFiles,
  paths: readonly string[],
  { top, threshold = 0 }: AnalysisQuery,
): Promise<Complexity> {
  const functions: Complexity['functions'] = [];
  await files.inspect('complexity', paths, (file, found) => {
    for (const it of found) functions.push({ ...it, file });
  });
  const total = functions.reduce((sum, it) => sum + it.cyclomatic, 0);
  const max = functions.reduce((most, it) => Math.max(most, it.cyclomatic), 0);
  const index = functions.reduce((sum, it) => sum + it.maintainability, 0);
  return {
    average: functions.length === 0 ? 0 : Math.round((total / functions.length) * 100) / 100,
    max,
    maintainability: functions.length === 0 ? 100 : Math.round(index / functions.length),
    totalFunctions: functions.length,
    functions: functions
      .filter((it) => it.cyclomatic >= threshold || it.cognitive >= threshold)
      .sort((a, b) => b.cognitive - a.cognitive || b.cyclomatic - a.cyclomatic || (a.file < b.file ? -1 : 1))
      .slice(0, top),
  };
}

export async function duplicatesAmong(
  files: SourceFiles,
  paths: readonly string[],
  { top, breathe }: { readonly top: number; readonly breathe: () => Promise<void> },
): Promise<Duplicate[]> {
  const all: FileTokens[] = [];
  await files.inspect('tokens', paths, (file, { tokens }) => void all.push(toFileTokens(file, tokens)));
  return (await duplicatesIn(all, { breathe })).slice(0, top);
}

export async function securityIn(
  files: SourceFiles,
  paths: readonly string[],
  { graphEntriesMax }: Limits,
): Promise<{ findings: SecurityFinding[]; truncated: boolean }> {
  const findings: SecurityFinding[] = [];
  await files.inspect('security', paths, (file, found) => {
    for (const it of found) findings.push({ ...it, file });
  });
  findings.sort(
    (a, b) =>
      SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) ||
      (a.file === b.file ? a.line - b.line : a.file < b.file ? -1 : 1),
  );
  return { findings: findings.slice(0, graphEntriesMax), truncated: findings.length > graphEntriesMax };
}

/** What the sources of `paths` import from elsewhere: at once, and through that. */
export function dependenciesOf(
  { edges, tables, resolutions }: ImportGraph,
  paths: readonly string[],
  { graphEntriesMax: max }: Limits,
): NonNullable<Analysis['dependencies']> {
  const own = new Set(paths);
  const targets = (file: string): string[] => (edges.get(file) ?? []).map((it) => it.to);
  const direct = new Set(paths.flatMap(targets).filter((it) => !own.has(it)));
  const reached = new Set(direct);
  for (const file of reached) for (const it of targets(file)) if (!own.has(it)) reached.add(it);
  const external = paths.flatMap((file) =>
    (tables.get(file)?.imports ?? []).flatMap((_, at) => {
      const it = resolutions.get(file)?.[at];
      return it && 'external' in it ? [it.external] : [];
    }),
  );
  const values = new Map([...edges].map(([file, its]) => [file, its.filter((it) => !it.typeOnly).map((it) => it.to)]));
  return {
    direct: [...direct].sort().slice(0, max),
    transitive: [...reached]
      .filter((it) => !direct.has(it))
      .sort()
      .slice(0, max),
    external: [...new Set(external)].sort().slice(0, max),
    cycles: circlesOf(values, max).filter((circle) => circle.some((it) => own.has(it))),
  };
}
