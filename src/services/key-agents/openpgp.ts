/** Signatures by a key of gpg, whose agent is reached by the socket that it has for others: that one gives no key away. */
import { existsSync } from 'node:fs';
import { environmentIn } from '../../sandbox/git/person-settings.ts';
import { outputOf } from './program-output.ts';
import type { Agents, FoundKey, SigningSettings } from './signing-key.ts';

const HOME_AT = '/tmp/gnupg';

const SIGN = `
export GNUPGHOME=${HOME_AT}
chmod 700 "$GNUPGHOME"
printf '%s\\n' "$1" | gpg --batch --no-autostart --quiet --import
gpg --batch --no-autostart --quiet --trust-model always --local-user "$2" --armor --detach-sign </tmp/commit >&3`;

/** The key that the settings name, or the one of their author; or why it can't be used. */
export async function openpgpKey(
  set: SigningSettings,
  { gpgHome, ...folders }: Agents,
): Promise<FoundKey | { readonly problem: string }> {
  const program = set.get('gpg.openpgp.program') ?? set.get('gpg.program') ?? 'gpg';
  if (!/(?:^|\/)gpg2?$/.test(program))
    return { problem: 'gpg.program names a program that is not gpg, and is not run' };
  const env = { ...environmentIn(folders), ...(gpgHome && { GNUPGHOME: gpgHome }) };
  const said = await outputOf('gpgconf', ['--list-dirs', 'agent-extra-socket'], env);
  const socket = said && decodeURIComponent(said.trim());
  if (!socket || !existsSync(socket))
    return { problem: 'no gpg-agent runs with its extra socket (gpgconf --launch gpg-agent)' };
  const named = set.get('user.signingkey') || `${set.get('user.name') ?? ''} <${set.get('user.email') ?? ''}>`;
  const gpg = (...args: string[]) => outputOf('gpg', ['--batch', '--no-autostart', ...args, '--', named], env);
  const listed = await gpg('--with-colons', '--list-keys');
  const [, print] = /^fpr:(?:[^:]*:){8}([0-9A-F]{40,64}):/m.exec(listed ?? '') ?? [];
  const key = print && (await gpg('--armor', '--export-options', 'export-minimal', '--export'));
  if (!key) return { problem: 'gpg knows no key that user.signingKey names' };
  const places = [{ path: socket, at: `${HOME_AT}/S.gpg-agent` }];
  return { name: `openpgp ${print}`, script: SIGN, words: [key, named], places };
}
