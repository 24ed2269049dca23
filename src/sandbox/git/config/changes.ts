/** Finds what a command changed in its copy of a repository's config, and what of that goes to the repository. Pure. */
import { concerns, danglingRemotes, whyRefused } from './keys.ts';
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
}

type Changes = Map<string, readonly string[]>;

/** Keys that one command may change: each costs a parse of the text. */
const CHANGES_MAX = 128;
const KEY_CHARS_TOLD = 256;
const ALL = 'all keys';

/**
 * `given`: the text that the command got; `after`: the text that it left; `now`: the repository's text, which may
 * have changed meanwhile.
 */
export function merge(given: string, after: string, now: string): Merged {
  if (after === given) return { taken: [], refused: [] };
  const [before, left, current] = [given, after, now].map((it) => parseGitConfig(it));
  if (!before || !current) return refuseAll('the config of the repository could not be read');
  if (!left) return refuseAll('what it left is no config that git reads');
  const all = changesOf(valuesOf(before), valuesOf(left));
  if (all.size > CHANGES_MAX) return refuseAll(`it changed ${all.size} keys, more than ${CHANGES_MAX}`);
  const refused: RefusedKey[] = [];
  const drop = (key: string, why: string) => {
    all.delete(key);
    refused.push({ key: key.slice(0, KEY_CHARS_TOLD), why });
  };
  const has = valuesOf(current);
  for (const [key, values] of [...all]) {
    const why = whyRefused(key, values, has.get(key));
    if (why !== undefined) drop(key, why);
  }
  const old = danglingRemotes(has);
  for (const remote of danglingRemotes(withChanges(has, all))) {
    for (const [key, values] of [...all])
      if (concerns(remote, key, values) && (!old.has(remote) || values.includes(remote)))
        drop(key, `\`${remote}\` would have no address, and git would take it for a path`);
  }
  const text = apply(now, all);
  if (text === undefined) return refuseAll('the repository has a config that can only be changed by hand');
  return { ...(text !== now && { text }), taken: [...all.keys()], refused };
}

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
