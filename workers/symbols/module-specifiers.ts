/** How modules name other modules: with an ending or without. */
import { dirname, join, normalize } from 'node:path';
import type { WorkspaceSources } from './workspace-sources.ts';

const ENDING = /(\.d)?\.([cm]?[jt]s|[jt]sx)$/;
/** The endings that are written for compiled files. */
const COMPILED: Readonly<Record<string, string>> = { ts: 'js', tsx: 'js', mts: 'mjs', cts: 'cjs' };

export const endingOf = (name: string): string | undefined => ENDING.exec(name)?.[0];
export const isRelative = (name: string): boolean => /^\.{1,2}(\/|$)/.test(name);

/**
 * `fresh` with an ending as `old` has one: the language server leaves it out, or writes that of the source where the
 * project allows it. `moved` is the new name of the file that both mean, if that is it.
 */
export function withEnding(old: string, fresh: string, moved: string | undefined): string {
  if (!isRelative(fresh)) return fresh;
  const [ending, given] = [endingOf(old), endingOf(fresh)];
  const stem = given === undefined ? fresh : fresh.slice(0, -given.length);
  if (ending === undefined) return stem;
  const now = (given ?? (moved === undefined ? undefined : endingOf(moved)))?.slice(1);
  if (now === undefined) return fresh + ending;
  const isSource = /^\.[cm]?tsx?$/.test(ending);
  return `${stem}.${isSource ? now : (COMPILED[now] ?? now)}`;
}

/** `name` with the ending that the other imports of a file have. */
export function likeOthers(
  name: string,
  others: readonly string[],
  from: string,
  { stamps }: WorkspaceSources,
): string {
  if (!isRelative(name) || endingOf(name) !== undefined) return name;
  const relative = others.filter(isRelative);
  const ended = relative.filter((it) => endingOf(it) !== undefined);
  if (ended.length === 0 || ended.length * 2 < relative.length) return name;
  const base = normalize(join(dirname(from), name));
  const target = [base, `${base}/index`]
    .flatMap((it) => SOURCES.map((ending) => it + ending))
    .find((it) => stamps.has(it));
  const real = target === undefined ? undefined : endingOf(target)?.slice(1);
  if (target === undefined || real === undefined) return name;
  const isSource = ended.some((it) => /\.[cm]?tsx?$/.test(it));
  const inner = target.startsWith(`${base}/`) ? '/index' : '';
  return `${name}${inner}.${isSource ? real : (COMPILED[real] ?? real)}`;
}

const SOURCES = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs'];

/** The declarations of a JavaScript file, or the file that declarations are of: TypeScript sees only one of the two. */
export function twinOf(path: string, { stamps }: Pick<WorkspaceSources, 'stamps'>): string | undefined {
  const twin = /\.d\.[cm]?ts$/.test(path)
    ? path.replace(/\.d\.([cm]?)ts$/, '.$1js')
    : path.replace(/\.([cm]?)jsx?$/, '.d.$1ts');
  return twin !== path && stamps.has(twin) ? twin : undefined;
}
