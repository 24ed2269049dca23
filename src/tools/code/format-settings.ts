/** The workspace's options of layout, read as data: a configuration that is code is never run. */

import { ToolError } from '../../base/errors.ts';
import { jsonOr } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { holds } from '../context/file-presence.ts';
import type { ToolContext } from '../tool.ts';

/** Files of options that are JSON, the first one found holds. */
const DATA = ['.oxfmtrc.json', '.prettierrc', '.prettierrc.json'];
/** Files that show that another program formats the workspace, or that hold options only that program can read. */
const OTHERS = [
  ...['js', 'mjs', 'cjs', 'ts', 'mts', 'cts'].flatMap((it) => [`prettier.config.${it}`, `.prettierrc.${it}`]),
  ...['.prettierrc.yaml', '.prettierrc.yml', '.prettierrc.toml', '.prettierrc.json5', '.oxfmtrc.jsonc'],
  ...['biome.json', 'biome.jsonc', 'dprint.json', 'deno.json'],
];

/** Options of layout that oxfmt shares with prettier; others, such as plugins, would be code or unknown. */
const OPTIONS: Readonly<Record<string, 'number' | 'boolean' | 'string'>> = {
  printWidth: 'number',
  tabWidth: 'number',
  useTabs: 'boolean',
  semi: 'boolean',
  singleQuote: 'boolean',
  jsxSingleQuote: 'boolean',
  quoteProps: 'string',
  trailingComma: 'string',
  bracketSpacing: 'boolean',
  bracketSameLine: 'boolean',
  arrowParens: 'string',
  endOfLine: 'string',
};

export interface FormatSettings {
  readonly options: Readonly<Record<string, unknown>>;
  /** The file of the options, or `built in`. */
  readonly from: string;
}

/** Throws UNSUPPORTED if the workspace is formatted by a program or by options that can't be read as data. */
export function formatSettings(ctx: ToolContext): FormatSettings {
  const from = DATA.find((it) => holds(it, ctx));
  if (from !== undefined) return { options: optionsIn(from, ctx), from };
  const other = OTHERS.find((it) => holds(it, ctx));
  if (other === undefined) return { options: {}, from: 'built in' };
  throw new ToolError('UNSUPPORTED', `this workspace is formatted by its own program: \`${other}\``, {
    suggestion: 'Run that program by terminal_execute, or use engine: builtin for the built-in layout.',
  });
}

/** Throws UNSUPPORTED if the workspace has settings of its own for the layout of Python, which ruff does not get here. */
export function assertNoPythonSettings(ctx: ToolContext): void {
  const from =
    ['ruff.toml', '.ruff.toml'].find((it) => holds(it, ctx)) ?? (hasPythonTable(ctx) ? 'pyproject.toml' : '');
  if (from === '') return;
  throw new ToolError('UNSUPPORTED', `this workspace formats Python by settings of its own: \`${from}\``, {
    suggestion: 'Run its formatter by terminal_execute, or use engine: builtin for the built-in layout.',
  });
}

function hasPythonTable(ctx: ToolContext): boolean {
  if (!holds('pyproject.toml', ctx)) return false;
  using file = ctx.open('pyproject.toml');
  return /^\s*\[\s*tool\s*\.\s*(black|ruff|yapf|autopep8)\b/m.test(file.bytes().toString('utf8'));
}

function optionsIn(path: string, ctx: ToolContext): Record<string, unknown> {
  using file = ctx.open(path);
  const said = jsonOr(file.bytes().toString('utf8'), undefined);
  // Such as YAML, or JSON with comments.
  if (said === undefined)
    throw new ToolError('UNSUPPORTED', `the options in \`${path}\` are not JSON`, {
      suggestion: "Run the workspace's own formatter by terminal_execute, or use engine: builtin.",
    });
  if (!isRecord(said)) throw new ToolError('UNSUPPORTED', `the options in \`${path}\` are not an object`);
  const known = Object.entries(said).filter(([key, value]) => typeof value === OPTIONS[key]);
  // Prettier breaks lines at 80 unless told otherwise, oxfmt at 100.
  const width = path.startsWith('.prettierrc') ? { printWidth: 80 } : {};
  return { ...width, ...Object.fromEntries(known) };
}
