/** Lints and formats sources by programs of ours, under our configuration: nothing of the workspace runs. */

import { join } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { isRecord } from '../../src/base/text/values.ts';
import type { Checkers, Engine, LintAnswer, LintIssue, SourceText } from '../../src/tools/source/checkers.ts';
import { formatPython, isPython, lintPython, ruffEngine } from '../python-checker.ts';
import { type CheckerParts, type CheckerRun, packageOf, runChecker, SourceCopies } from './checker-process.ts';
import { FIXABLE_RULES, LINT_CONFIG } from './lint-rules.ts';

export class WorkspaceCheckers implements Checkers {
  readonly #parts: CheckerParts;

  constructor(parts: CheckerParts) {
    this.#parts = parts;
  }

  linterOf(sources: readonly SourceText[]): Engine {
    return engineOf('oxlint', sources);
  }

  formatterOf(sources: readonly SourceText[]): Engine {
    return engineOf('oxfmt', sources);
  }

  async lint(sources: readonly SourceText[], options: { readonly fix: boolean }): Promise<LintAnswer> {
    const others = sources.filter((it) => !isPython(it));
    const answers = [
      await this.#lint(others, options),
      await lintPython(sources.filter(isPython), options, this.#parts),
    ];
    return {
      issues: answers.flatMap((it) => it.issues).sort(byPosition),
      texts: answers.flatMap((it) => it.texts),
      fixed: answers.reduce((sum, it) => sum + it.fixed, 0),
    };
  }

  async format(sources: readonly SourceText[], config: object): ReturnType<Checkers['format']> {
    const [python, others] = [sources.filter(isPython), sources.filter((it) => !isPython(it))];
    const formatted = await formatPython(python, this.#parts);
    const rest = await this.#format(others, config);
    const byPath = new Map([
      ...python.map((it, at) => [it.path, formatted[at]] as const),
      ...others.map((it, at) => [it.path, rest[at]] as const),
    ]);
    return sources.map(({ path }) => byPath.get(path) ?? { refused: 'the formatter gave nothing' });
  }

  async #lint(sources: readonly SourceText[], { fix }: { readonly fix: boolean }): Promise<LintAnswer> {
    if (sources.length === 0) return { issues: [], texts: [], fixed: 0 };
    using copies = new SourceCopies(sources, LINT_CONFIG);
    const found = await this.#issues(copies, []);
    if (!fix || !found.some(isFixable)) return { issues: toIssues(found, sources), texts: [], fixed: 0 };
    const left = await this.#issues(copies, ['--fix']);
    const now = sources.map(({ path }) => ({ path, text: copies.textOf(path) }));
    const texts = now.filter(({ text }, at) => text !== sources[at]?.text);
    return { issues: toIssues(left, now), texts, fixed: Math.max(found.length - left.length, 0) };
  }

  async #format(sources: readonly SourceText[], config: object): ReturnType<Checkers['format']> {
    if (sources.length === 0) return [];
    using copies = new SourceCopies(sources, config);
    const options = [
      '-c',
      copies.config,
      '--disable-nested-config',
      '--with-node-modules',
      '--ignore-path',
      copies.ignore,
    ];
    const { stderr, stdout, exitCode } = await this.#run('oxfmt', [...options, '.'], copies);
    const said = `${stderr}\n${stdout}`;
    return sources.map(({ path }) => {
      const refused = exitCode === 0 ? undefined : refusalIn(said, path);
      return refused === undefined ? { text: copies.textOf(path) } : { refused };
    });
  }

  async #issues(copies: SourceCopies, more: readonly string[]): Promise<RawIssue[]> {
    const options = ['-c', copies.config, '--disable-nested-config', '--no-ignore', '-f', 'json', ...more];
    const { stdout, stderr } = await this.#run('oxlint', [...options, '.'], copies);
    return readIssues(stdout, stderr);
  }

  #run(name: 'oxlint' | 'oxfmt', args: CheckerRun['args'], { folder: cwd }: SourceCopies) {
    return runChecker({ script: join(packageOf(name).folder, 'bin', name), args, cwd }, this.#parts);
  }
}

/** The programs that read these sources. */
function engineOf(name: 'oxlint' | 'oxfmt', sources: readonly SourceText[]): Engine {
  const own = { name, version: packageOf(name).version, config: 'built in' };
  if (!sources.some(isPython)) return own;
  const ruff = ruffEngine();
  if (sources.every(isPython)) return ruff;
  return { ...own, name: `${name}, ${ruff.name}`, version: `${own.version}, ${ruff.version}` };
}

const byPosition = (a: LintIssue, b: LintIssue): number =>
  a.file === b.file ? a.line - b.line || a.column - b.column : a.file < b.file ? -1 : 1;

/** An issue with its position in bytes of the file. */
interface RawIssue {
  readonly file: string;
  readonly rule: string;
  readonly severity: LintIssue['severity'];
  readonly message: string;
  readonly offset: number;
}

function readIssues(stdout: string, stderr: string): RawIssue[] {
  let report: unknown;
  try {
    report = parseJson(stdout);
  } catch {
    // SyntaxError: a message instead of a report.
    throw new ToolError('HOST_CRASHED', `the linter gave no report: ${(stderr || stdout).trim().slice(0, 300)}`);
  }
  if (!isRecord(report) || !Array.isArray(report.diagnostics))
    throw new ToolError('HOST_CRASHED', 'the linter gave a report of another form');
  return report.diagnostics.filter(isRecord).map((it) => {
    const [label] = Array.isArray(it.labels) ? it.labels : [];
    const span = isRecord(label) && isRecord(label.span) ? label.span : {};
    return {
      file: String(it.filename).replace(/^\.\//, ''),
      rule: typeof it.code === 'string' ? it.code : 'syntax',
      severity: it.severity === 'error' ? 'error' : 'warning',
      message: String(it.message),
      offset: typeof span.offset === 'number' ? span.offset : 0,
    };
  });
}

/** `no-debugger` of `eslint(no-debugger)`. */
const ruleNameOf = (rule: string): string => /\((.*)\)$/.exec(rule)?.[1] ?? rule;

const isFixable = ({ rule }: RawIssue): boolean => FIXABLE_RULES.has(ruleNameOf(rule));

function toIssues(issues: readonly RawIssue[], texts: readonly SourceText[]): LintIssue[] {
  const byPath = new Map(texts.map(({ path, text }) => [path, Buffer.from(text)]));
  return issues
    .map((issue) => {
      const { offset, ...it } = issue;
      const before = (byPath.get(it.file) ?? Buffer.alloc(0)).subarray(0, offset).toString('utf8');
      const line = before.split('\n').length;
      const column = before.length - (before.lastIndexOf('\n') + 1) + 1;
      return { ...it, line, column, fixable: isFixable(issue) };
    })
    .sort(byPosition);
}

/** What the formatter says of a file: a message, and below it `,-[path:line:column]`. */
function refusalIn(said: string, path: string): string | undefined {
  const at = [`,-[${path}:`, `╭─[${path}:`].map((it) => said.indexOf(it)).find((it) => it >= 0) ?? -1;
  if (at < 0) return undefined;
  const position = /:(\d+):(\d+)\]/.exec(said.slice(at));
  const message =
    said
      .slice(0, at)
      .trimEnd()
      .split('\n')
      .at(-1)
      ?.trim()
      .replace(/^[x×] /, '') ?? 'a syntax error';
  return position ? `${message} (line ${position[1]}, column ${position[2]})` : message;
}
