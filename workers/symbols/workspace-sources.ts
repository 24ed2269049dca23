/** The sources of a workspace that one call may see, and their positions as a language server names them. */
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Limits } from '../../src/base/limits.ts';
import type { CheckedSearch, ContentQuery } from '../../src/tools/tool.ts';
import { isProject, isServed, parsedLanguage } from './source-languages.ts';

/** The files of a workspace that one call may see. */
export interface WorkspaceSources {
  /** Absolute path. */
  readonly workspace: string;
  /** Paths relative to the workspace, each with a stamp that changes with the file. */
  readonly stamps: ReadonlyMap<string, string>;
  /** The text of a file; undefined if it must not be read, is gone or too large. */
  read(path: string): string | undefined;
}

/** Positions as in the Language Server Protocol: from 0, characters in UTF-16 units. */
export interface FilePosition {
  readonly path: string;
  readonly line: number;
  readonly character: number;
}

interface Spot {
  readonly line: number;
  readonly character: number;
}

export interface TextRange {
  readonly start: Spot;
  readonly end: Spot;
}

export interface Location {
  readonly uri: string;
  readonly range: TextRange;
}

/** Stamps of all sources and project files that a search finds; not complete if there are too many. */
export async function listStamps(
  search: CheckedSearch,
  { symbolSourcesMax }: Limits,
): Promise<{ stamps: Map<string, string>; complete: boolean }> {
  const stamps = new Map<string, string>();
  let complete = true;
  await search.files({}, (path) => {
    if (!isServed(path) && parsedLanguage(path) === undefined) return true;
    complete = stamps.size < symbolSourcesMax;
    if (!complete) return false;
    const stat = search.stat(path);
    if (stat) stamps.set(path, `${stat.modifiedMs} ${stat.size}`);
    return true;
  });
  return { stamps, complete };
}

const CREATED = 1;
const CHANGED = 2;
const DELETED = 3;

export function changesBetween(
  before: ReadonlyMap<string, string>,
  sources: WorkspaceSources,
): { uri: string; type: number }[] {
  const { stamps } = sources;
  const changes: { uri: string; type: number }[] = [];
  const add = (path: string, type: number) => {
    if (isServed(path)) changes.push({ uri: uriOf(path, sources), type });
  };
  for (const [path, stamp] of stamps) {
    const old = before.get(path);
    if (old !== stamp) add(path, old === undefined ? CREATED : CHANGED);
  }
  for (const path of before.keys()) if (!stamps.has(path)) add(path, DELETED);
  return changes;
}

/** One file of each project, and all that seem to be in none, since the server looks only at open ones. */
export function onePerProject(paths: readonly string[], stamps: ReadonlyMap<string, string>): string[] {
  const projects = new Set([...stamps.keys()].filter(isProject).map((it) => dirname(it)));
  const homeOf = (directory: string): string | undefined => {
    if (projects.has(directory)) return directory;
    return directory === '.' ? undefined : homeOf(dirname(directory));
  };
  const met = new Set<string>();
  return paths.filter((path) => {
    const home = homeOf(dirname(path));
    if (home === undefined) return true;
    return !met.has(home) && met.add(home);
  });
}

/** Sorts one file of each directory first: a project mostly leaves out whole directories. */
export function oneEach(paths: readonly string[]): { files: string[]; directories: number } {
  const met = new Set<string>();
  const first: string[] = [];
  const rest: string[] = [];
  for (const path of paths) {
    (met.has(dirname(path)) ? rest : first).push(path);
    met.add(dirname(path));
  }
  return { files: [...first, ...rest], directories: met.size };
}

export const uriOf = (path: string, { workspace }: WorkspaceSources): string =>
  pathToFileURL(join(workspace, path)).href;

/** The sources that match a text query, sorted; `search` is disposed. */
export async function filesWith(
  search: CheckedSearch,
  query: ContentQuery,
  { stamps }: WorkspaceSources,
): Promise<string[]> {
  using used = search;
  const found: string[] = [];
  await used.counts(query, (path) => {
    if (stamps.has(path) && !path.endsWith('.json')) found.push(path);
    return true;
  });
  return found.sort();
}

/** A path as sources are named: without empty parts and `.`. */
export const plain = (path: string): string =>
  path
    .split('/')
    .filter((it) => it !== '' && it !== '.')
    .join('/');

/** The path of a source; undefined if it lies outside, is ignored, or must not be shown. */
export function pathOf(uri: string, { workspace, stamps }: WorkspaceSources): string | undefined {
  let absolute: string;
  try {
    absolute = fileURLToPath(uri);
  } catch {
    return undefined; // Not a file, or its name is not UTF-8, which none of ours is.
  }
  if (!absolute.startsWith(`${workspace}/`)) return undefined;
  const path = absolute.slice(workspace.length + 1);
  return stamps.has(path) ? path : undefined;
}

/** The position of a location in a source that may be shown. */
export function toPosition({ uri, range: { start } }: Location, sources: WorkspaceSources): FilePosition | undefined {
  const path = pathOf(uri, sources);
  return path === undefined ? undefined : { path, line: start.line, character: start.character };
}
