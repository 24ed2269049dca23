/** Which paths git ignores, by the `.gitignore` files of a workspace: what a build made is not worth a copy. */
import { type Glob, matchGlob, parseGlob } from '../../src/base/text/glob.ts';

/** Ignored folders that a tool fills again, so that nothing of them is kept. */
export const MADE_AGAIN: ReadonlySet<string> = new Set([
  ...['node_modules', 'bower_components', '.next', '.nuxt', '.svelte-kit', '.turbo', '.parcel-cache', '.yarn'],
  ...['.venv', 'venv', '__pycache__', '.mypy_cache', '.pytest_cache', '.ruff_cache', '.tox', '.eggs'],
  ...['target', 'build', 'dist', 'out', 'obj', '.gradle', '.terraform', '.cache', 'coverage', 'Pods', '_build'],
]);

interface IgnoreRule {
  readonly glob: Glob;
  readonly isNegated: boolean;
  readonly onlyDirectories: boolean;
}

/** The most bytes and rules that are read of one file: each rule is tried on each path. */
export const IGNORE_FILE_BYTES_MAX = 64 * 1024;
const RULES_MAX = 500;

export class IgnoreRules {
  readonly #rules = new Map<string, readonly IgnoreRule[]>();
  /** Answers for directories. */
  readonly #known = new Map<string, string | undefined>();

  /** Sets the rules of a directory ('' for the workspace); no text means that it has none. */
  set(folder: string, text: string | undefined): void {
    this.#known.clear();
    const rules = text === undefined ? [] : toRules(text);
    if (rules.length > 0) this.#rules.set(folder, rules);
    else this.#rules.delete(folder);
  }

  /** The outermost ignored directory that holds `path`, with `/` at its end, or `path` itself; undefined if it is not ignored. */
  ignoredBy(path: string, isDirectory: boolean): string | undefined {
    if (this.#rules.size === 0) return undefined;
    const cut = path.lastIndexOf('/');
    const above = cut < 0 ? undefined : this.#ofDirectory(path.slice(0, cut));
    if (above !== undefined) return above;
    if (isDirectory) return this.#ofDirectory(path);
    return this.#matches(path, false) ? path : undefined;
  }

  #ofDirectory(path: string): string | undefined {
    if (this.#known.has(path)) return this.#known.get(path);
    const cut = path.lastIndexOf('/');
    const above = cut < 0 ? undefined : this.#ofDirectory(path.slice(0, cut));
    const answer = above ?? (this.#matches(path, true) ? `${path}/` : undefined);
    this.#known.set(path, answer);
    return answer;
  }

  /** The last rule that matches decides, and those of inner directories come last. */
  #matches(path: string, isDirectory: boolean): boolean {
    let isIgnored = false;
    for (let from = 0; ; ) {
      const folder = path.slice(0, Math.max(0, from - 1));
      const rest = path.slice(from);
      const name = rest.slice(rest.lastIndexOf('/') + 1);
      for (const { glob, isNegated, onlyDirectories } of this.#rules.get(folder) ?? []) {
        if (isIgnored !== isNegated || (onlyDirectories && !isDirectory)) continue;
        if (matchGlob(glob, name, rest)) isIgnored = !isNegated;
      }
      const next = path.indexOf('/', from);
      if (next < 0) return isIgnored;
      from = next + 1;
    }
  }
}

function toRules(text: string): IgnoreRule[] {
  const rules: IgnoreRule[] = [];
  for (const line of text.split('\n')) {
    const written = line.replace(/\r$/, '').replace(/(?<!\\) +$/, '');
    if (written === '' || written.startsWith('#')) continue;
    const isNegated = written.startsWith('!');
    const pattern = isNegated ? written.slice(1) : written;
    const onlyDirectories = pattern.endsWith('/');
    // Braces mean nothing to git.
    const plain = (onlyDirectories ? pattern.slice(0, -1) : pattern).replace(/[{}]/g, '\\$&');
    if (plain === '') continue;
    rules.push({ glob: parseGlob(plain), isNegated, onlyDirectories });
    if (rules.length >= RULES_MAX) break;
  }
  return rules;
}
