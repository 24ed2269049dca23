/** Lints and formats Python by ruff, in a child process that may be killed. No configuration of the workspace is read. */
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ToolError } from '../src/base/errors.ts';
import { parseJson } from '../src/base/text/json.ts';
import type { Engine, LintAnswer, LintIssue, SourceText } from '../src/tools/source/checkers.ts';
import { type CheckerParts, runChecker } from './code/checker-process.ts';

export interface RuffRequest {
  readonly task: 'lint' | 'fix' | 'format';
  readonly files: readonly SourceText[];
}

export interface RuffIssue {
  readonly code: string;
  readonly message: string;
  readonly line: number;
  readonly column: number;
  readonly fixable: boolean;
}

/** The answer about one file. */
export interface RuffAnswer {
  readonly issues?: readonly RuffIssue[];
  readonly text?: string;
  readonly fixed?: number;
  readonly refused?: string;
}

export const isPython = ({ path }: SourceText): boolean => /\.pyi?$/i.test(path);

export function ruffEngine(): Engine {
  const { version } = createRequire(import.meta.url)('@astral-sh/ruff-wasm-nodejs/package.json') as { version: string };
  return { name: 'ruff', version, config: 'built in' };
}

/** Lints Python sources. A file that ruff can't take is an issue of its own. */
export async function lintPython(
  files: readonly SourceText[],
  { fix }: { readonly fix: boolean },
  parts: CheckerParts,
): Promise<LintAnswer> {
  const answers = await ask({ task: fix ? 'fix' : 'lint', files }, parts);
  const issues = files.flatMap(({ path }, at): LintIssue[] => {
    const { issues: found, refused } = answers[at] ?? {};
    if (refused !== undefined)
      return [{ file: path, line: 1, column: 1, rule: 'ruff', severity: 'error', message: refused, fixable: false }];
    return (found ?? []).map(({ code, ...it }) => ({
      file: path,
      rule: code,
      severity: /^(E9|F|invalid|syntax)/.test(code) ? 'error' : 'warning',
      ...it,
    }));
  });
  const texts = files.flatMap(({ path, text }, at) => {
    const now = answers[at]?.text;
    return now === undefined || now === text ? [] : [{ path, text: now }];
  });
  return { issues, texts, fixed: answers.reduce((sum, it) => sum + (it.fixed ?? 0), 0) };
}

export async function formatPython(files: readonly SourceText[], parts: CheckerParts) {
  const answers = await ask({ task: 'format', files }, parts);
  return files.map((_, at) => {
    const { text, refused = 'ruff gave nothing' } = answers[at] ?? {};
    return text === undefined ? { refused } : { text };
  });
}

async function ask(request: RuffRequest, parts: CheckerParts): Promise<RuffAnswer[]> {
  if (request.files.length === 0) return [];
  const script = fileURLToPath(new URL(`./ruff-process${extname(import.meta.url)}`, import.meta.url));
  const input = JSON.stringify(request);
  const { stdout, stderr } = await runChecker({ script, args: [], cwd: '/', input }, parts);
  try {
    return parseJson(stdout) as RuffAnswer[];
  } catch {
    // SyntaxError: the process ended before it had answered.
    throw new ToolError('HOST_CRASHED', `ruff gave no answer: ${stderr.trim().slice(0, 300)}`, {
      suggestion: 'Name fewer files, to find the one that it can not take.',
    });
  }
}
