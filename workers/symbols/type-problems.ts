/** Turns diagnostics of TypeScript into what an answer tells, with the paths of the caller. */
import { dirname, join, normalize } from 'node:path';
import type { TypeProblem } from '../../src/tools/source/typescript.ts';
import { isProject } from './source-languages.ts';
import type { TextRange } from './workspace-sources.ts';

/** A diagnostic in the form of the language server's protocol. */
export interface Diagnostic {
  readonly range: TextRange;
  /** 1 error, 2 warning, 3 and 4 suggestions; absent for an error. */
  readonly severity?: number;
  readonly code?: number | string;
  readonly message: string;
}

export interface FileDiagnostic extends Diagnostic {
  /** Relative to the workspace root. */
  readonly path: string;
}

export interface ProblemsOptions {
  /** Absolute path. */
  readonly workspace: string;
  /** Whether a path, existing or not, is hidden from this call. */
  isRefused(path: string): boolean;
}

export class TypeProblems {
  readonly #options: ProblemsOptions;

  constructor(options: ProblemsOptions) {
    this.#options = options;
  }

  toProblem({ path, range: { start }, code = 0, message }: FileDiagnostic): TypeProblem {
    const { workspace } = this.#options;
    const text = message.replaceAll(`${workspace}/`, '').slice(0, MESSAGE_CHARS_MAX).toWellFormed();
    const hint = this.#hintOf(path, Number(code), message);
    return {
      file: path,
      line: start.line + 1,
      column: start.character + 1,
      code: `TS${code}`,
      message: text,
      ...((isProject(path) || NO_FILE_CODES.has(Number(code))) && { isConfig: true }),
      hint,
    };
  }

  /** Why a module may be missing for the checker only: the policy hides files from it, too. */
  #hintOf(path: string, code: number, message: string): string | undefined {
    if (!MISSING.has(code)) return undefined;
    const [, name] = /['"]([^'"]+)['"]/.exec(message) ?? [];
    if (name === undefined || !/^\.{1,2}(\/|$)/.test(name)) return undefined;
    const base = normalize(join(dirname(path), name));
    const stem = base.replace(/\.[cm]?js$/, '');
    const hidden = [base, ...ENDINGS.flatMap((it) => [stem + it, `${base}/index${it}`])].find(
      (it) => !it.startsWith('..') && this.#options.isRefused(it),
    );
    if (hidden === undefined) return undefined;
    return `The policy hides \`${hidden}\` from this check, so this may be no error where the file can be read.`;
  }
}

const MESSAGE_CHARS_MAX = 2000;
const ENDINGS = ['.ts', '.tsx', '.d.ts', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json'];
/** Codes for a module, a file or its types that can't be found. */
const MISSING: ReadonlySet<number> = new Set([2307, 2732, 2792, 2882, 6053, 7016]);
/** Codes about a project that have no file: no inputs were found, the path does not exist. */
const NO_FILE_CODES: ReadonlySet<number> = new Set([18002, 18003, 5058, 5083]);
