/**
 * Sets the author of commands' commits: the person, unless a repository or the command says otherwise. Variables
 * (`GIT_AUTHOR_NAME` …) would override each repository's `user.name`, so this writes git's system config, which all others override.
 * The same config holds the person's git-lfs filter, without which commands would commit large files whole, and the
 * person's `safe.directory`: the repositories of other users, such as those that containers leave, that git may use.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GIT_SYSTEM } from '../bubblewrap.ts';

const FILE = 'config';

/** The person's settings that commands' git has. */
export interface Identity {
  /** The author of commits, unless the repository's config names one. */
  readonly name?: string | undefined;
  readonly email?: string | undefined;
  /** Directories in which git uses repositories of other users. */
  readonly safe?: readonly string[];
  /** What `git lfs install` set for the person. */
  readonly lfs?: Readonly<Record<string, string>>;
}

/** What commands need to use the identity. */
export interface GitIdentity {
  /** Absolute path; mounted at `GIT_SYSTEM`, read-only. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Writes the config, once for all commands of a host. Undefined if there is nothing to write. */
export function createGitIdentity(identity: Identity): GitIdentity | undefined {
  const text = toGitConfig(identity);
  if (text === undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-git-'));
  writeFileSync(join(folder, FILE), text, { mode: 0o644 });
  return { folder, environment: { GIT_CONFIG_SYSTEM: `${GIT_SYSTEM}/${FILE}` } };
}

/** Writes the identity in git's format. Quotes and line ends in a name are escaped, so that they start no other key. */
export function toGitConfig({ name, email, lfs = {}, safe = [] }: Identity): string | undefined {
  const sections: [string, [string, string | undefined][]][] = [
    ['user', Object.entries({ name, email })],
    ['filter "lfs"', Object.entries(lfs)],
    ['safe', safe.map((it) => ['directory', it])],
  ];
  const text = sections.map(([title, settings]) => sectionOf(title, settings)).join('');
  return text === '' ? undefined : text;
}

function sectionOf(title: string, settings: readonly (readonly [string, string | undefined])[]): string {
  const lines = settings.flatMap(([key, value]) => (value === undefined ? [] : [`\t${key} = ${quoted(value)}\n`]));
  return lines.length === 0 ? '' : `[${title}]\n${lines.join('')}`;
}

const quoted = (text: string): string =>
  `"${text
    .replaceAll(/\p{Cc}/gu, ' ')
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')}"`;
