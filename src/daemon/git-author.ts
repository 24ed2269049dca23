/** Reads from the person's git what commands' git has of it, once, since no sandbox sees their settings. */

import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { findProgram } from '../sandbox/find-program.ts';
import type { Identity } from '../sandbox/git/commit-author.ts';

const PROGRAM_PATH = '/usr/local/bin:/usr/bin:/bin';
const NAME_CHARS_MAX = 256;
const OUTPUT_CHARS_MAX = 16 * 1024;

/** What `git lfs install` sets, with and without `--skip-smudge`. Other values could name any program. */
const LFS: Readonly<Record<string, readonly string[]>> = {
  clean: ['git-lfs clean -- %f'],
  smudge: ['git-lfs smudge -- %f', 'git-lfs smudge --skip -- %f'],
  process: ['git-lfs filter-process', 'git-lfs filter-process --skip'],
  required: ['true'],
};

const KEYS = '^(user\\.(name|email)|filter\\.lfs\\.(clean|smudge|process|required)|safe\\.directory)$';

/** Empty if git is missing, has no identity, or takes too long. `home` and `configHome` are absolute. */
export async function readIdentity(
  { home, configHome }: { home: string; configHome: string },
  { gitIdentityMs }: Limits,
  powers: Powers,
): Promise<Identity> {
  const git = findProgram('git');
  if (git === undefined) return {};
  // GIT_DIR prevents the search for a repository: the daemon's directory may be anybody's.
  const env = { PATH: PROGRAM_PATH, HOME: home, XDG_CONFIG_HOME: configHome, GIT_DIR: '/dev/null', LC_ALL: 'C.UTF-8' };
  const args = ['config', '-z', '--get-regexp', KEYS];
  const child = powers.spawn(git, args, { stdio: ['ignore', 'pipe', 'ignore'], env, cwd: '/' });
  const timer = powers.after(gitIdentityMs, () => child.kill('SIGKILL'));
  let text = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    if (text.length < OUTPUT_CHARS_MAX) text += chunk;
  });
  await new Promise<void>((resolve) => child.once('error', () => resolve()).once('close', () => resolve()));
  timer.cancel();
  const entries = text.split('\0').map((it) => it.split('\n', 2) as [string, string | undefined]);
  const said = new Map(entries);
  const [name, email] = [said.get('user.name'), said.get('user.email')].map(toWord);
  const lfs = Object.entries(LFS).flatMap(([key, known]): [string, string][] => {
    const value = said.get(`filter.lfs.${key}`);
    return value !== undefined && known.includes(value) ? [[key, value]] : [];
  });
  const safe = safeOf(
    entries.flatMap(([key, value = '']) => (key === 'safe.directory' ? [value] : [])),
    home,
  );
  const isWhole = lfs.length === Object.keys(LFS).length;
  return {
    ...(name !== undefined && { name }),
    ...(email !== undefined && { email }),
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
