/** The workspace's own linters and formatters: how to tell which it has, their command lines, and their reports. */

import { ToolError } from '../../base/errors.ts';
import { asWord } from '../../base/paths.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { holds } from '../context/file-presence.ts';
import type { Engine, LintIssue } from '../source/checkers.ts';
import type { CommandResult, ToolContext } from '../tool.ts';

export const LINTERS = ['eslint', 'biome', 'oxlint', 'prettier', 'ruff', 'black', 'clippy'] as const;
export type Linter = (typeof LINTERS)[number];

interface Program {
  /** Files at the root by which the workspace configures it. */
  readonly configs: readonly string[];
  /** Files by which it is installed in the workspace; its command is beside the first of them that is there. */
  readonly installed: readonly string[];
  readonly words: readonly string[];
  /** Whether the paths belong to its command; else it looks at the whole workspace, and issues elsewhere are left out. */
  readonly takesPaths: boolean;
}

const ofNode = (name: string, configs: readonly string[], words: readonly string[], from = name): Program => ({
  configs,
  installed: [`node_modules/${from}/package.json`],
  words: [`node_modules/.bin/${name}`, ...words, '--'],
  takesPaths: true,
});
const ofPython = (name: string, configs: readonly string[], words: readonly string[]): Program => ({
  configs: [...configs, 'pyproject.toml'],
  installed: [`.venv/bin/${name}`],
  words: [`.venv/bin/${name}`, ...words, '--'],
  takesPaths: true,
});

const PROGRAMS: Readonly<Record<Linter, Program>> = {
  eslint: ofNode(
    'eslint',
    ['js', 'mjs', 'cjs', 'ts', 'mts', 'cts'].map((it) => `eslint.config.${it}`),
    ['--format', 'json'],
  ),
  biome: ofNode(
    'biome',
    ['biome.json', 'biome.jsonc'],
    ['lint', '--reporter=json', '--max-diagnostics=none'],
    '@biomejs/biome',
  ),
  oxlint: ofNode('oxlint', ['.oxlintrc.json', 'oxlint.config.ts'], ['-f', 'json']),
  prettier: ofNode('prettier', ['.prettierrc', '.prettierrc.json', 'prettier.config.js'], ['--list-different']),
  ruff: ofPython('ruff', ['ruff.toml', '.ruff.toml'], ['check', '--no-cache', '--output-format=json']),
  black: ofPython('black', [], ['--check', '--diff', '--quiet']),
  clippy: {
    configs: ['clippy.toml', '.clippy.toml', 'Cargo.toml'],
    installed: ['Cargo.toml'],
    words: ['cargo', 'clippy', '--quiet', '--message-format=json'],
    takesPaths: false,
  },
};

/** A linter for JavaScript with a configuration at the root that is installed there; undefined if there is none. */
export function findLinter(ctx: ToolContext): Linter | undefined {
  const own = ['eslint', 'biome', 'oxlint'] as const;
  return own.find((it) => configOf(it, ctx) !== undefined && isInstalled(it, ctx));
}

export const isInstalled = (linter: Linter, ctx: ToolContext): boolean =>
  PROGRAMS[linter].installed.some((it) => holds(it, ctx));

const configOf = (linter: Linter, ctx: ToolContext): string | undefined =>
  PROGRAMS[linter].configs.find((it) => holds(it, ctx));

/** The name, version and configuration of an installed program; only packages of npm tell their version in a file. */
export function engineOf(linter: Linter, ctx: ToolContext): Engine {
  const config = configOf(linter, ctx) ?? 'none';
  const [about = ''] = PROGRAMS[linter].installed;
  if (!about.endsWith('/package.json')) return { name: linter, version: 'unknown', config };
  using file = ctx.open(about);
  const said: unknown = parseJson(file.bytes().toString('utf8'));
  const version = isRecord(said) && typeof said.version === 'string' ? said.version : 'unknown';
  return { name: linter, version, config };
}

export const lintCommand = (linter: Linter, paths: readonly string[]): string =>
  [...PROGRAMS[linter].words, ...(PROGRAMS[linter].takesPaths ? paths : [])].map(asWord).join(' ');

interface Looked {
  readonly workspace: string;
  readonly paths: readonly string[];
}

/** The issues in the report of a linter that has run. Throws CODE_ERROR if it gave none. */
export function readReport(linter: Linter, ran: CommandResult, { workspace, paths }: Looked): LintIssue[] {
  const { report, stderr, exitCode } = ran;
  const isWanted = (file: string) =>
    PROGRAMS[linter].takesPaths || paths.some((it) => it === '.' || file === it || file.startsWith(`${it}/`));
  try {
    const issues = READERS[linter](report?.toString('utf8') ?? '', exitCode);
    return issues.map((it) => ({ ...it, file: relative(it.file, workspace) })).filter((it) => isWanted(it.file));
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

/** Read the text that a linter printed. Throw SyntaxError for one that is no report. */
const READERS: Readonly<Record<Linter, (text: string, exitCode: number) => LintIssue[]>> = {
  eslint: (text) =>
    records(parseJson(text)).flatMap((file) =>
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
  biome: (text) =>
    diagnosticsIn(text).map((it) => {
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
  oxlint: (text) =>
    diagnosticsIn(text).map((it) => {
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
  prettier: (text, exitCode) => unformatted('prettier', exitCode, text.split('\n').filter(Boolean)),
  black: (text, exitCode) =>
    unformatted(
      'black',
      exitCode,
      [...text.matchAll(/^--- (.+?)\t/gm)].map(([, file = '']) => file),
    ),
  ruff: (text) =>
    records(parseJson(text)).map((it) => {
      const at = isRecord(it.location) ? it.location : {};
      return {
        file: String(it.filename),
        line: numberOf(at.row),
        column: numberOf(at.column),
        rule: typeof it.code === 'string' ? it.code : 'syntax',
        severity: 'error',
        message: String(it.message),
        fixable: isRecord(it.fix),
      };
    }),
  clippy(text) {
    const lines = text
      .split('\n')
      .filter(Boolean)
      .map((it) => parseJson(it));
    if (!lines.some((it) => isRecord(it) && it.reason === 'build-finished')) throw new SyntaxError('it is cut');
    return records(lines).flatMap(({ message }) => (isRecord(message) ? clippyIssue(message) : []));
  },
};

const diagnosticsIn = (text: string): Record<string, unknown>[] => {
  const report = parseJson(text);
  return records(isRecord(report) ? report.diagnostics : []);
};

/** Files that a formatter would change; one that ends otherwise than with 0 or 1 has looked at nothing. */
function unformatted(name: Linter, exitCode: number, files: readonly string[]): LintIssue[] {
  if (exitCode !== 0 && exitCode !== 1) throw new SyntaxError(`it ended with ${exitCode}`);
  const issue = { line: 1, column: 1, rule: `${name}/format`, severity: 'warning', fixable: true } as const;
  return files.map((file) => ({ ...issue, file, message: `is not laid out as ${name} does it` }));
}

function clippyIssue(message: Record<string, unknown>): LintIssue[] {
  const span = records(message.spans).find((it) => it.is_primary === true);
  if (!span) return [];
  return [
    {
      file: String(span.file_name),
      line: numberOf(span.line_start),
      column: numberOf(span.column_start),
      rule: isRecord(message.code) ? String(message.code.code) : 'rustc',
      severity: message.level === 'error' ? 'error' : 'warning',
      message: String(message.message),
      fixable: false,
    },
  ];
}
