/** What tsconfig.json, package.json and go.mod say about modules. Runs in the parser child. */
import { parse } from 'jsonc-parser';

export interface ProjectConfig {
  /** tsconfig.json: what it is based on, as written. */
  readonly extends: string[];
  readonly references: string[];
  readonly baseUrl?: string;
  /** Patterns and their targets, as written. */
  readonly paths?: [pattern: string, targets: string[]][];
  /** package.json and go.mod: the name by which others import it. */
  readonly name?: string | undefined;
  /** package.json: every text in it that could name a file. */
  readonly mentions: string[];
}

/** Comments and trailing commas are taken; what has another type than it should is left out. */
export function configOf(path: string, text: string): ProjectConfig {
  if (path.endsWith('go.mod')) {
    const name = /^module\s+(\S+)/m.exec(text)?.[1];
    return { extends: [], references: [], mentions: [], name };
  }
  const value = recordOf(parse(text, [], { allowTrailingComma: true }));
  const options = recordOf(value.compilerOptions);
  const { baseUrl } = options;
  const paths = Object.entries(recordOf(options.paths)).map(([pattern, targets]): [string, string[]] => [
    pattern,
    textsOf(targets),
  ]);
  const references = listOf(value.references).flatMap((it) => textsOf(recordOf(it).path));
  const isPackage = path.endsWith('package.json');
  return {
    extends: textsOf(value.extends),
    references,
    ...(typeof baseUrl === 'string' && { baseUrl }),
    ...(paths.length > 0 && { paths }),
    ...(isPackage && typeof value.name === 'string' && { name: value.name }),
    mentions: isPackage ? mentionsIn(ENTRIES.map((it) => value[it])) : [],
  };
}

/** Keys of package.json that name files. */
const ENTRIES = ['main', 'module', 'browser', 'types', 'typings', 'bin', 'exports', 'imports', 'scripts', 'files'];

/** Words of all texts in a value that look like files; without recursion, since it may nest as deep as it likes. */
function mentionsIn(value: unknown): string[] {
  const found: string[] = [];
  const left = [value];
  while (left.length > 0 && found.length < MENTIONS_MAX) {
    const next = left.pop();
    if (typeof next === 'string') found.push(...next.split(/[\s'"=;&|]+/).filter((it) => it.includes('.')));
    else if (typeof next === 'object' && next !== null) left.push(...Object.values(next));
  }
  return found.slice(0, MENTIONS_MAX);
}

const MENTIONS_MAX = 1_000;

const recordOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const textsOf = (value: unknown): string[] =>
  (Array.isArray(value) ? value : [value]).filter((it): it is string => typeof it === 'string');
