/** Answers questions about whole files in the parser child. */
import { complexityOf } from './complexity.ts';
import { configOf } from './graph/project-config.ts';
import type { Inspections, InspectRequest } from './inspections.ts';
import { moduleTableOf, type SourceText } from './module-table.ts';
import { outlineOf } from './outline.ts';
import { findingsIn } from './security/findings.ts';
import { tokensOf } from './token-lines.ts';

export function inspectAll({
  what,
  files,
  ast = false,
  namesMax = NAMES_MAX,
}: InspectRequest): Promise<Inspections[typeof what][]> {
  const inspections: { [K in keyof Inspections]: (source: SourceText) => Promise<Inspections[K]> } = {
    outline: (source) => outlineOf(source, { ast, namesMax }),
    modules: moduleTableOf,
    config: ({ path, text }) => Promise.resolve(configOf(path, text)),
    complexity: (source) => Promise.resolve(complexityOf(source)),
    security: (source) => Promise.resolve(findingsIn(source)),
    tokens: (source) => Promise.resolve(tokensOf(source)),
  };
  return Promise.all(files.map((it) => inspections[what](it)));
}

/** For questions about many files; an answer about one has its own bound. */
const NAMES_MAX = 10_000;
