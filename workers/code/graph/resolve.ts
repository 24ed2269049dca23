/** Looks for the files of imported modules. Runs in the parser child; it looks at names, and reads only package.json. */
import { ResolverFactory } from 'oxc-resolver';

/** Directories and names to look for one module; the first that is found is meant. */
export type Candidates = readonly (readonly [directory: string, request: string])[];

/** Absolute paths without links; null for modules that are not found. No tsconfig is read: its paths are candidates. */
export function resolveAll(modules: readonly Candidates[]): (string | null)[] {
  const resolver = new ResolverFactory({
    extensions: ['.ts', '.tsx', '.d.ts', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json'],
    extensionAlias: {
      '.js': ['.ts', '.tsx', '.d.ts', '.js', '.jsx'],
      '.jsx': ['.tsx', '.jsx'],
      '.mjs': ['.mts', '.d.mts', '.mjs'],
      '.cjs': ['.cts', '.d.cts', '.cjs'],
    },
    conditionNames: ['source', 'import', 'require', 'node', 'default', 'types'],
    mainFields: ['source', 'module', 'main', 'types'],
    nodePath: false,
  });
  return modules.map((candidates) => {
    for (const [directory, request] of candidates) {
      const { path } = resolver.sync(directory, request);
      if (path !== undefined) return path;
    }
    return null;
  });
}
