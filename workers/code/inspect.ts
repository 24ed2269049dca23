/** Answers questions about whole files in the parser child. */
import type { Inspections, InspectRequest } from './inspections.ts';
import { moduleTableOf, type SourceText } from './module-table.ts';
import { outlineOf } from './outline.ts';

export function inspectAll({ what, files, ast = false, namesMax = 0 }: InspectRequest): Inspections[typeof what][] {
  const inspections: { [K in keyof Inspections]: (source: SourceText) => Inspections[K] } = {
    outline: (source) => outlineOf(source, { ast, namesMax }),
    modules: moduleTableOf,
  };
  return files.map(inspections[what]);
}
