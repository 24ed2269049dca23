/** Finds what a command changed in its copy of a repository's config, and what of that goes to the repository. Pure. */
import { concerns, danglingRemotes, followsElsewhere, wasRemoved, whyRefused, whyRefusedInWorktree } from './keys.ts';
import { parseGitConfig, valuesOf, withValues } from './text.ts';

export interface RefusedKey {
  readonly key: string;
  readonly why: string;
}

export interface Merged {
  /** The new text of the repository's config; undefined if unchanged. */
  readonly text?: string;
  readonly taken: readonly string[];
  readonly refused: readonly RefusedKey[];
  /** Whether the settings of the `config.worktree` are now among those of the config. */
  readonly isFolded?: boolean | undefined;
}

type Changes = Map<string, readonly string[]>;

/** The file that the changes are for, beside its texts. */
export interface MergeOptions {
  /** Whether it is the `config.worktree` of a work tree. */
  readonly isOfWorktree?: boolean;
  /** Text of the `config.worktree` that the command left beside the config. */
  readonly worktree?: string | undefined;
  /** Whether the command still runs, and reads its `config.worktree`. */
  readonly isRunning?: boolean;
}

/** Keys that one command may change: each costs a parse of the text. */
const CHANGES_MAX = 128;
const KEY_CHARS_TOLD = 256;
const ALL = 'all keys';

/**
 * `given`: the text that the command got; `after`: the text that it left; `now`: the repository's text, which may
 * have changed meanwhile.
 */
export function merge(given: string, after: string, now: string, options: MergeOptions = {}): Merged {
  const [before, left, current] = [given, after, now].map((it) => parseGitConfig(it));
  if (!before || !current) return refuseAll('the config of the repository could not be read');
  if (!left) return refuseAll('what it left is no config that git reads');
  const has = valuesOf(current);
  const folded = has.has(EXTENSION) ? undefined : foldedOf(valuesOf(left), options.worktree);
  const base = new Map([...valuesOf(before)].filter(([key]) => key !== EXTENSION || has.has(key)));
  const all = changesOf(base, folded ?? valuesOf(left));
  // The command may still set keys of a work tree's config; they are judged together once the command has ended.
  if (options.isRunning) all.delete(EXTENSION);
  if (all.size > CHANGES_MAX) return refuseAll(`it changed ${all.size} keys, more than ${CHANGES_MAX}`);
  const refused = dropRefused(all, has, options);
  const text = apply(now, all);
  if (text === undefined) return refuseAll('the repository has a config that can only be changed by hand');
  return { ...(text !== now && { text }), taken: [...all.keys()], refused, ...(folded && { isFolded: true }) };
}

/** Removes from the changes what may not be taken over, and tells why. */
function dropRefused(all: Changes, has: ReadonlyMap<string, string[]>, { isOfWorktree }: MergeOptions): RefusedKey[] {
  const refused: RefusedKey[] = [];
  const drop = (key: string, why: string) => {
    all.delete(key);
    refused.push({ key: key.slice(0, KEY_CHARS_TOLD), why });
  };
  for (const [key, values] of [...all]) {
    const why = isOfWorktree ? whyRefusedInWorktree(key, values) : whyRefused(key, values, has);
    if (why !== undefined) drop(key, why);
  }
  const old = danglingRemotes(has);
  for (const remote of danglingRemotes(withChanges(has, all))) {
    for (const [key, values] of [...all])
      if (concerns(remote, key, values) && (!old.has(remote) || values.includes(remote)))
        drop(key, `\`${remote}\` would have no address, and git would take it for a path`);
  }
  for (const key of [...all.keys()]) {
    const why = followsElsewhere(key, has, withChanges(has, all)) ?? wasRemoved(key, all, { has, refused });
    if (why !== undefined) drop(key, why);
  }
  return refused;
}

const EXTENSION = 'extensions.worktreeconfig';

/** Whether git reads `config.worktree` beside a config with this text; assumed of a text that can't be read. */
export function readsWorktreeConfig(text: string): boolean {
  const entries = parseGitConfig(text);
  return !entries || valuesOf(entries).has(EXTENSION);
}

/**
 * Adds the settings of a `config.worktree` as if they had been made in the config, and leaves out that git reads such a file: commands
 * can make a file that is not there yet, so the person's git must not begin to read it. Undefined if there is nothing to add.
 */
function foldedOf(left: Map<string, string[]>, worktree: string | undefined): Map<string, string[]> | undefined {
  const entries = worktree !== undefined && left.has(EXTENSION) ? parseGitConfig(worktree) : undefined;
  return entries && new Map([...left, ...valuesOf(entries)].filter(([key]) => key !== EXTENSION));
}

/** Whether each key was judged by itself. */
export const isWhole = ({ refused }: Pick<Merged, 'refused'>): boolean => refused.every(({ key }) => key !== ALL);

export const refuseAll = (why: string): Merged => ({ taken: [], refused: [{ key: ALL, why }] });

function changesOf(before: ReadonlyMap<string, string[]>, after: ReadonlyMap<string, string[]>): Changes {
  const keys = new Set([...before.keys(), ...after.keys()]);
  const isSame = (key: string) => JSON.stringify(before.get(key)) === JSON.stringify(after.get(key));
  return new Map([...keys].filter((it) => !isSame(it)).map((key) => [key, after.get(key) ?? []]));
}

function withChanges(values: ReadonlyMap<string, readonly string[]>, changes: Changes): Map<string, readonly string[]> {
  return new Map([...values, ...changes].filter(([key]) => changes.get(key)?.length !== 0));
}

/** Applies the changes; undefined if the new text would not hold exactly these values. */
function apply(now: string, changes: Changes): string | undefined {
  let text: string | undefined = now;
  for (const [key, values] of changes) text = text === undefined ? undefined : withValues(text, key, values);
  const entries = text === undefined ? undefined : parseGitConfig(text);
  if (!entries) return undefined;
  const wanted = withChanges(valuesOf(parseGitConfig(now) ?? []), changes);
  return changesOf(wanted as Map<string, string[]>, valuesOf(entries)).size === 0 ? text : undefined;
}
