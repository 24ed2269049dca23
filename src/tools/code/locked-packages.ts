/** The packages of a project, as a lockfile of any manager tells them. Pure. */
import * as z from 'zod';
import { isRecord } from '../../base/text/values.ts';

export const lockedPackage = z.strictObject({
  name: z.string(),
  installed: z.string().describe('Version of the lockfile.'),
  wanted: z.string().optional().describe('Range that the project asks for.'),
  direct: z.boolean(),
  dev: z.boolean().optional().describe('This and the next ones only where the lockfile tells.'),
  optional: z.boolean().optional(),
  license: z.string().optional(),
  hasInstallScript: z.boolean().optional(),
});
export type LockedPackage = z.output<typeof lockedPackage>;

export const treeEntry = z.strictObject({
  name: z.string(),
  version: z.string(),
  depth: z.int().positive(),
  deduped: z.boolean().describe('Whether its dependencies are shown at an earlier place.'),
});
export type TreeEntry = z.output<typeof treeEntry>;

/** A package that a registry may know. */
export interface RegistryPackage {
  readonly name: string;
  readonly version: string;
  readonly direct: boolean;
  /** URL that it was installed from; absent if the lockfile leaves it out. */
  readonly from?: string | undefined;
}

/** What tools ask of a lockfile. */
export interface Lockfile {
  /** All packages, sorted by name. */
  list(): LockedPackage[];
  /** The packages that an npm registry may know. */
  registryPackages(): RegistryPackage[];
  /** The packages, each before what it depends on; undefined if the file does not tell who needs whom. */
  tree(depthMax: number, entriesMax: number): { entries: TreeEntry[]; truncated: boolean } | undefined;
}

/** A package with the keys of those that it needs. */
export interface Entry extends Omit<LockedPackage, 'direct'> {
  readonly needs: readonly string[];
  /** Whether an npm registry may know it. */
  readonly isOfNpm?: boolean;
  /** URL that it was installed from; absent if the lockfile leaves it out. */
  readonly from?: string;
}

export interface Parsed {
  readonly entries: ReadonlyMap<string, Entry>;
  /** Keys of what the project itself asks for, with the range if it is told. */
  readonly direct: ReadonlyMap<string, string | undefined>;
  /** Whether it tells who needs whom. */
  readonly hasTree: boolean;
}

/** What a tool reads of a lockfile. */
export function toLockfile({ entries, direct, hasTree }: Parsed): Lockfile {
  const listed = [...entries].map(([key, { needs: _, isOfNpm: __, from: ___, ...it }]): LockedPackage => {
    return { ...it, direct: direct.has(key), wanted: direct.get(key) };
  });
  return {
    list: () =>
      listed.sort((a, b) => (a.name === b.name ? (a.installed < b.installed ? -1 : 1) : a.name < b.name ? -1 : 1)),
    registryPackages: () =>
      [...entries].flatMap(([key, { name, installed, isOfNpm, from }]) =>
        isOfNpm ? [{ name, version: installed, direct: direct.has(key), from }] : [],
      ),
    tree: (depthMax, entriesMax) =>
      hasTree ? unfold(entries, [...direct.keys()], { depthMax, entriesMax }) : undefined,
  };
}

function unfold(
  all: Parsed['entries'],
  roots: readonly string[],
  { depthMax, entriesMax }: { depthMax: number; entriesMax: number },
) {
  const entries: TreeEntry[] = [];
  const unfolded = new Set<string>();
  // In the order of the names under which other packages require them: npm's keys end with that name.
  const nameIn = (key: string) => key.replace(/^.*node_modules\//, '');
  const byName = (a: string, b: string) => (nameIn(a) < nameIn(b) ? -1 : 1);
  const left = roots
    .toSorted(byName)
    .map((key) => ({ key, depth: 1 }))
    .reverse();
  for (let next = left.pop(); next; next = left.pop()) {
    const { key, depth } = next;
    const it = all.get(key);
    if (!it) continue;
    if (entries.length >= entriesMax) return { entries, truncated: true };
    const children = depth < depthMax ? it.needs.filter((need) => all.has(need)).toSorted(byName) : [];
    const deduped = unfolded.has(key) && children.length > 0;
    entries.push({ name: it.name, version: it.installed, depth, deduped });
    if (deduped) continue;
    unfolded.add(key);
    for (const child of children.reverse()) left.push({ key: child, depth: depth + 1 });
  }
  return { entries, truncated: false };
}

const TEXT_CHARS = 500;
export const textOf = (value: unknown): string => (typeof value === 'string' ? value.slice(0, TEXT_CHARS) : '');
export const recordOf = (value: unknown): Record<string, unknown> => (isRecord(value) ? value : {});
export const records = (value: unknown): Record<string, unknown>[] =>
  Array.isArray(value) ? value.filter(isRecord) : [];
