/** What the parser child can be asked about whole files, and its answers; types alone, for both sides. */
import type { ModuleTable, SourceText } from './module-table.ts';
import type { Outline } from './outline.ts';
import type { ProjectConfig } from './project-config.ts';

/** The answer about one file, by question. */
export interface Inspections {
  readonly outline: Outline;
  readonly modules: ModuleTable;
  readonly config: ProjectConfig;
}

export interface InspectRequest {
  readonly what: keyof Inspections;
  readonly files: readonly SourceText[];
  /** For `outline`: whether the syntax tree is wanted, too. */
  readonly ast?: boolean;
  /** The most symbols, and the most nodes of the syntax tree. */
  readonly namesMax?: number;
}
