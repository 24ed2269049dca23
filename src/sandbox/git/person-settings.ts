/** Reads settings of the person's own git, which no sandbox sees. */
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { outputOf } from '../../base/program-answer.ts';
import { findProgram } from '../find-program.ts';

/** The folders in which the person's programs find their settings; absolute. */
export interface PersonFolders {
  readonly home: string;
  readonly configHome: string;
}

const PROGRAM_PATH = '/usr/local/bin:/usr/bin:/bin';
const OUTPUT_CHARS_MAX = 16 * 1024;

/** The environment of a program that finds the person's settings, and nothing else of them. */
export const environmentIn = ({ home, configHome }: PersonFolders): Record<string, string> => ({
  PATH: PROGRAM_PATH,
  HOME: home,
  XDG_CONFIG_HOME: configHome,
  LC_ALL: 'C.UTF-8',
});

/**
 * The settings whose keys match a regular expression, in git's order, of which the last counts; keys in lower case. Empty if git is
 * missing, has none, or takes too long.
 */
export async function gitSettingsOf(
  keys: string,
  folders: PersonFolders,
  { limits, powers }: { readonly limits: Limits; readonly powers: Powers },
): Promise<[key: string, value: string | undefined][]> {
  const git = findProgram('git');
  if (git === undefined) return [];
  // GIT_DIR prevents the search for a repository: the daemon's directory may be anybody's.
  const env = { ...environmentIn(folders), GIT_DIR: '/dev/null' };
  const child = powers.spawn(git, ['config', '-z', '--get-regexp', keys], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env,
    cwd: '/',
  });
  const timer = powers.after(limits.gitIdentityMs, () => child.kill('SIGKILL'));
  const { stdout } = await outputOf(child, { stdout: OUTPUT_CHARS_MAX, stderr: 0 });
  timer.cancel();
  return stdout
    .split('\0')
    .slice(0, -1)
    .map((it) => it.split('\n', 2) as [string, string | undefined]);
}
