/** The workspace's own linters and formatters: how to tell which it has, their command lines, and their reports. */

import { ToolError } from '../../base/errors.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { holds } from '../context/file-presence.ts';
import type { Engine, LintIssue } from '../source/checkers.ts';
import type { CommandResult, ToolContext } from '../tool.ts';

export const LINTERS = ['eslint', 'biome', 'oxlint'] as const;
export type Linter = (typeof LINTERS)[number];

/** Configuration files at the root by which the workspace says that it uses a linter. */
const CONFIGS: Readonly<Record<Linter, readonly string[]>> = {
  eslint: ['js', 'mjs', 'cjs', 'ts', 'mts', 'cts'].map((it) => `eslint.config.${it}`),
  biome: ['biome.json', 'biome.jsonc'],
  oxlint: ['.oxlintrc.json', 'oxlint.config.ts'],
};
const PACKAGES: Readonly<Record<Linter, string>> = { eslint: 'eslint', biome: '@biomejs/biome', oxlint: 'oxlint' };

/** A linter with a configuration at the root that is installed there; undefined if there is none. */
export function findLinter(ctx: ToolContext): Linter | undefined {
  return LINTERS.find(
    (it) => configOf(it, ctx) !== undefined && holds(`node_modules/${PACKAGES[it]}/package.json`, ctx),
  );
}

export const configOf = (linter: Linter, ctx: ToolContext): string | undefined =>
  CONFIGS[linter].find((it) => holds(it, ctx));

/** The name, version and configuration of an installed program. */
export function engineOf(linter: Linter, ctx: ToolContext): Engine {
  const config = configOf(linter, ctx) ?? 'none';
  using file = ctx.open(`node_modules/${PACKAGES[linter]}/package.json`);
  const said: unknown = parseJson(file.bytes().toString('utf8'));
  const version = isRecord(said) && typeof said.version === 'string' ? said.version : 'unknown';
  return { name: linter, version, config };
}

const ARGS: Readonly<Record<Linter, readonly string[]>> = {
  eslint: ['--format', 'json', '--'],
  biome: ['lint', '--reporter=json', '--max-diagnostics=none', '--'],
  oxlint: ['-f', 'json', '--'],
};

export const lintCommand = (linter: Linter, paths: readonly string[]): string =>
  [`node_modules/.bin/${linter}`, ...ARGS[linter], ...paths].map(quoted).join(' ');

/** A word as a shell reads it back. */
export const quoted = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** The issues in the report of a linter that has run. Throws CODE_ERROR if it gave none. */
export function readReport(
  linter: Linter,
  { report, stderr, exitCode }: CommandResult,
  workspace: string,
): LintIssue[] {
  try {
    const said: unknown = parseJson(report?.toString('utf8') ?? '');
    return READERS[linter](said).map((it) => ({ ...it, file: relative(it.file, workspace) }));
  } catch (error) {
    // SyntaxError: a message instead of a report.
    if (!(error instanceof SyntaxError)) throw error;
    const why = stderr.trim().split('\n').slice(0, 5).join(' ').slice(0, 500);
    throw new ToolError('CODE_ERROR', `${linter} ended with ${exitCode} and gave no report: ${why}`, {
      suggestion: 'Run it by terminal_execute to see all that it says, or use engine: builtin.',
    });
  }
}

const records = (it: unknown): Record<string, unknown>[] => (Array.isArray(it) ? it.filter(isRecord) : []);
const numberOf = (it: unknown): number => (typeof it === 'number' ? it : 1);
const relative = (file: string, workspace: string): string =>
  file.startsWith(`${workspace}/`) ? file.slice(workspace.length + 1) : file.replace(/^\.\//, '');

const READERS: Readonly<Record<Linter, (report: unknown) => LintIssue[]>> = {
  eslint: (report) =>
    records(report).flatMap((file) =>
      records(file.messages).map((it) => ({
        file: String(file.filePath),
        line: numberOf(it.line),
        column: numberOf(it.column),
        rule: typeof it.ruleId === 'string' ? it.ruleId : 'syntax',
        severity: it.severity === 2 ? 'error' : 'warning',
        message: String(it.message),
        fixable: isRecord(it.fix),
      })),
    ),
  biome: (report) =>
    records(isRecord(report) ? report.diagnostics : []).map((it) => {
      const location = isRecord(it.location) ? it.location : {};
      const start = isRecord(location.start) ? location.start : {};
      const path = isRecord(location.path) ? location.path.file : location.path;
      return {
        file: String(path),
        line: numberOf(start.line),
        column: numberOf(start.column),
        rule: String(it.category),
        severity: it.severity === 'error' || it.severity === 'fatal' ? 'error' : 'warning',
        message: typeof it.message === 'string' ? it.message : String(it.description),
        fixable: Array.isArray(it.tags) && it.tags.includes('fixable'),
      };
    }),
  oxlint: (report) =>
    records(isRecord(report) ? report.diagnostics : []).map((it) => {
      const [label] = records(it.labels);
      const span = isRecord(label?.span) ? label.span : {};
      return {
        file: String(it.filename),
        line: numberOf(span.line),
        column: numberOf(span.column),
        rule: typeof it.code === 'string' ? it.code : 'syntax',
        severity: it.severity === 'error' ? 'error' : 'warning',
        message: String(it.message),
        fixable: false,
      };
    }),
};
