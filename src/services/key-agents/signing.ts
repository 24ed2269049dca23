/** Signs commits as the person's own git is set to, with a key in an agent of theirs. Their settings count, and no repository's. */
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { CommitSigner, SigningKey } from '../../pipeline/execute/keys/key-agents.ts';
import { gitSettingsOf } from '../../sandbox/git/person-settings.ts';
import { type LendParts, lend } from './lent-program.ts';
import { openpgpKey } from './openpgp.ts';
import type { Agents, FoundKey, SigningSettings } from './signing-key.ts';
import { sshKey } from './ssh-signature.ts';

const KEYS = String.raw`^(commit\.gpgsign|user\.(signingkey|name|email)|gpg\.format|gpg\.(ssh\.|openpgp\.)?program)$`;
const TRUE = ['true', 'yes', 'on', '1'];

/** Takes a commit from the pipe, by its length. What is no commit is not signed. */
const TAKE = `
IFS= read -r bytes <&3 && head -c "$bytes" <&3 >/tmp/commit || exit 1
[ "$(head -c 5 /tmp/commit)" = 'tree ' ] || exit 1`;

export class Signer implements CommitSigner {
  readonly #agents: Agents;
  readonly #parts: LendParts & { readonly limits: Limits; readonly powers: Powers };

  constructor(agents: Agents, parts: LendParts & { readonly limits: Limits; readonly powers: Powers }) {
    this.#agents = agents;
    this.#parts = parts;
  }

  async key(): Promise<SigningKey | { readonly problem: string } | undefined> {
    const set: SigningSettings = new Map(await gitSettingsOf(KEYS, this.#agents, this.#parts));
    // A key without a value is true.
    const signs = set.has('commit.gpgsign') ? (set.get('commit.gpgsign') ?? 'true') : '';
    if (!TRUE.includes(signs.toLowerCase())) return undefined;
    const found = await this.#find(set);
    if ('problem' in found) return found;
    const { name, script, ...rest } = found;
    return {
      name,
      start: (until) => lend({ script: `${TAKE}${script}`, ...rest, network: [], until }, this.#parts),
    };
  }

  async #find(set: SigningSettings): Promise<FoundKey | { readonly problem: string }> {
    switch (set.get('gpg.format') ?? 'openpgp') {
      case 'ssh':
        return sshKey(set, this.#agents, this.#parts.powers);
      case 'openpgp':
        return openpgpKey(set, this.#agents);
      default:
        return { problem: `gpg.format is ${set.get('gpg.format')}, and only ssh and openpgp are supported` };
    }
  }
}
