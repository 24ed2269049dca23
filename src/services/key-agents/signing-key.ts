/** What the ways to sign have in common. */
import type { SigningKey } from '../../pipeline/execute/keys/key-agents.ts';
import type { PersonFolders } from '../../sandbox/git/person-settings.ts';
import type { LentProgram } from './lent-program.ts';

/** Places of a person's keys. */
export interface Agents extends PersonFolders {
  /** Absolute path of the socket of the ssh agent. */
  readonly ssh: string | undefined;
  /** The folder of gpg, if it is not the usual one. */
  readonly gpgHome: string | undefined;
}

/** The person's git settings about signing; the last of each key. */
export type SigningSettings = ReadonlyMap<string, string | undefined>;

/** A key with the program that signs with it: it finds the commit in /tmp/commit, and writes the signature to descriptor 3. */
export type FoundKey = Pick<LentProgram, 'script' | 'words' | 'places'> & Pick<SigningKey, 'name'>;
