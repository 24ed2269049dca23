/**
 * The child process that lints and formats Python by ruff's WebAssembly: a request on standard input, an answer on
 * standard output. Sources are hostile, so nothing else runs here, and it opens no file but its own code.
 */
import { createRequire } from 'node:module';
import type { Workspace } from '@astral-sh/ruff-wasm-nodejs';
import { parseJson } from '../src/base/text/json.ts';
import { establishPerimeter } from './perimeter.ts';
import type { RuffAnswer, RuffIssue, RuffRequest } from './python-checker.ts';

establishPerimeter(2);

const require = createRequire(import.meta.url);
const PACKAGE = '@astral-sh/ruff-wasm-nodejs';
type Ruff = typeof import('@astral-sh/ruff-wasm-nodejs');

/** Code that is wrong (pyflakes, syntax), and code that probably is (comparisons, flake8-bugbear); no matters of style. */
const OPTIONS = { lint: { select: ['E9', 'F', 'E71', 'E72', 'B'] } };
/** Rules whose fixes never change what the code does. Ruff's WebAssembly does not say which fixes are safe. */
const SAFE = new Set(['F401', 'F541', 'B009', 'B010']);
/** Fixes may make room for others. */
const ROUNDS_MAX = 10;

let ruff: Workspace | undefined;

function workspace(): Workspace {
  const module = require(PACKAGE) as Ruff;
  ruff ??= new module.Workspace(OPTIONS, module.PositionEncoding.Utf16);
  return ruff;
}

/** After a trap, such as a stack that overflowed, the memory of the module is no longer sound. */
function startAfresh(): void {
  ruff = undefined;
  delete require.cache[require.resolve(PACKAGE)];
}

interface Diagnostic {
  readonly code: string | null;
  readonly message: string;
  readonly start_location: Location;
  readonly fix: { readonly edits: readonly Edit[] } | null;
}
interface Location {
  readonly row: number;
  readonly column: number;
}
interface Edit {
  readonly content: string | null;
  readonly location: Location;
  readonly end_location: Location;
}

const isFixable = ({ code, fix }: Diagnostic, path: string): boolean =>
  fix !== null && code !== null && SAFE.has(code) && !(code === 'F401' && /(^|\/)__init__\.pyi?$/.test(path));

function lint(path: string, source: string, fix: boolean): { issues: RuffIssue[]; text: string; fixed: number } {
  let text = source;
  let found = workspace().check(text) as Diagnostic[];
  const before = found.length;
  for (let round = 0; fix && round < ROUNDS_MAX; round++) {
    const edited = withFixes(
      text,
      found.filter((it) => isFixable(it, path)),
    );
    if (edited === text) break;
    text = edited;
    found = workspace().check(text) as Diagnostic[];
  }
  const issues = found.map((it) => ({
    code: it.code ?? 'syntax',
    message: it.message,
    line: it.start_location.row,
    column: it.start_location.column,
    fixable: isFixable(it, path),
  }));
  return { issues, text, fixed: Math.max(before - found.length, 0) };
}

/** The text with all fixes that do not touch one another. */
function withFixes(text: string, diagnostics: readonly Diagnostic[]): string {
  const starts = [0, ...[...text.matchAll(/\r\n|\n|\r/g)].map((it) => it.index + it[0].length)];
  const offsetOf = ({ row, column }: Location) => (starts[row - 1] ?? text.length) + column - 1;
  const fixes = diagnostics.map(({ fix }) =>
    (fix?.edits ?? []).map((it) => ({
      start: offsetOf(it.location),
      end: offsetOf(it.end_location),
      text: it.content ?? '',
    })),
  );
  const taken: { start: number; end: number; text: string }[] = [];
  for (const edits of fixes)
    if (edits.every((it) => taken.every((other) => it.end < other.start || other.end < it.start))) taken.push(...edits);
  let result = text;
  for (const it of taken.sort((a, b) => b.start - a.start))
    result = result.slice(0, it.start) + it.text + result.slice(it.end);
  return result;
}

function answerOf({ task, files }: RuffRequest): RuffAnswer[] {
  return files.map(({ path, text }) => {
    try {
      if (task === 'format') return { text: workspace().format(text) };
      return lint(path, text, task === 'fix');
    } catch (error) {
      const { name, message } = error as Error;
      if (name !== 'RuntimeError' && name !== 'RangeError') return { refused: message };
      startAfresh();
      return { refused: 'ruff can not take it: it nests too deep, or ruff has a fault' };
    }
  });
}

let request = '';
for await (const chunk of process.stdin) request += chunk;
process.stdout.write(JSON.stringify(answerOf(parseJson(request) as RuffRequest)));
