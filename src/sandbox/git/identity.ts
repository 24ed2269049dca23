/**
 * Whom the commits of commands are by: the person, unless a repository or the command says otherwise. Variables
 * (`GIT_AUTHOR_NAME` …) would win over `user.name` of each repository, so this is git's system config, which yields to all others.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GIT_SYSTEM } from '../bubblewrap.ts';

const FILE = 'config';

interface Identity {
  readonly name?: string;
  readonly email?: string;
}

/** What commands need in order to have it. */
export interface GitIdentity {
  /** Absolute; mounted at `GIT_SYSTEM`, read-only. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Writes the config, once for all commands of a host. Undefined where nobody's name or mail is known. */
export function createGitIdentity(identity: Identity): GitIdentity | undefined {
  const text = toGitConfig(identity);
  if (text === undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-git-'));
  writeFileSync(join(folder, FILE), text, { mode: 0o644 });
  return { folder, environment: { GIT_CONFIG_SYSTEM: `${GIT_SYSTEM}/${FILE}` } };
}

/** As git reads it. A name that holds quotes or line ends stays a name, and begins no other key. */
export function toGitConfig({ name, email }: Identity): string | undefined {
  const lines = Object.entries({ name, email }).flatMap(([key, value]) =>
    value === undefined ? [] : [`\t${key} = ${quoted(value)}\n`],
  );
  return lines.length === 0 ? undefined : `[user]\n${lines.join('')}`;
}

const quoted = (text: string): string =>
  `"${text
    .replaceAll(/\p{Cc}/gu, ' ')
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')}"`;
