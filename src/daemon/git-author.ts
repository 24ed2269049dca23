/** Reads from the person's git what commands' git has of it, once, since no sandbox sees their settings. */

import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { Identity } from '../sandbox/git/commit-author.ts';
import { gitSettingsOf, type PersonFolders } from '../sandbox/git/person-settings.ts';

const NAME_CHARS_MAX = 256;

/** What `git lfs install` sets, with and without `--skip-smudge`. Other values could name any program. */
const LFS: Readonly<Record<string, readonly string[]>> = {
  clean: ['git-lfs clean -- %f'],
  smudge: ['git-lfs smudge -- %f', 'git-lfs smudge --skip -- %f'],
  process: ['git-lfs filter-process', 'git-lfs filter-process --skip'],
  required: ['true'],
};

const KEYS = '^(user\\.(name|email)|filter\\.lfs\\.(clean|smudge|process|required)|safe\\.directory)$';

/** Empty if git is missing, has no identity, or takes too long. */
export async function readIdentity(folders: PersonFolders, limits: Limits, powers: Powers): Promise<Identity> {
  const entries = await gitSettingsOf(KEYS, folders, { limits, powers });
  const said = new Map(entries);
  const [name, email] = [said.get('user.name'), said.get('user.email')].map(toWord);
  const lfs = Object.entries(LFS).flatMap(([key, known]): [string, string][] => {
    const value = said.get(`filter.lfs.${key}`);
    return value !== undefined && known.includes(value) ? [[key, value]] : [];
  });
  const safe = safeOf(
    entries.flatMap(([key, value = '']) => (key === 'safe.directory' ? [value] : [])),
    folders.home,
  );
  const isWhole = lfs.length === Object.keys(LFS).length;
  return {
    name,
    email,
    ...(isWhole && { lfs: Object.fromEntries(lfs) }),
    ...(safe.length > 0 && { safe }),
  };
}

/** Directories whose repositories the person trusts, whoever owns them; an empty one takes back those before it. */
const safeOf = (directories: readonly string[], home: string): string[] =>
  directories.slice(directories.lastIndexOf('') + 1).map((it) => it.replace(/^~(?=\/)/, home));

/** Removes characters that git would also drop, since they would break a commit's header. */
const toWord = (text: string | undefined): string | undefined =>
  text
    ?.replaceAll(/[\p{Cc}<>]/gu, '')
    .trim()
    .slice(0, NAME_CHARS_MAX) || undefined;
