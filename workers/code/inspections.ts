/** What the parser child can be asked about whole files, and its answers; types alone, for both sides. */
import type { FunctionComplexity, SecurityFinding } from '../../src/tools/source/analysis.ts';
import type { ProjectConfig } from './graph/project-config.ts';
import type { ModuleTable, SourceText } from './module-table.ts';
import type { Outline } from './outline.ts';
import type { TokenTable } from './token-lines.ts';

/** The answer about one file, by question. */
export interface Inspections {
  readonly outline: Outline;
  readonly modules: ModuleTable;
  readonly config: ProjectConfig;
  readonly complexity: FunctionComplexity[];
  readonly security: Omit<SecurityFinding, 'file'>[];
  readonly tokens: TokenTable;
}

export interface InspectRequest {
  readonly what: keyof Inspections;
  readonly files: readonly SourceText[];
  /** For `outline`: whether the syntax tree is wanted, too. */
  readonly ast?: boolean;
  /** The most symbols, and the most nodes of the syntax tree. */
  readonly namesMax?: number;
}
