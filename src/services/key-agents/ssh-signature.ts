/** Signatures by a key in the person's ssh agent. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { Powers } from '../../base/powers.ts';
import type { Agents, FoundKey, SigningSettings } from './signing-key.ts';
import { AGENT_AT } from './ssh.ts';
import { keysIn } from './ssh-agent.ts';

const SIGN = `
printf '%s\\n' "$1" >/tmp/key.pub
export SSH_AUTH_SOCK=${AGENT_AT}
ssh-keygen -q -Y sign -n git -f /tmp/key.pub </tmp/commit >&3`;

/** The key that the settings name, or why it can't be used. */
export async function sshKey(
  set: SigningSettings,
  { ssh, home }: Agents,
  powers: Powers,
): Promise<FoundKey | { readonly problem: string }> {
  const program = set.get('gpg.ssh.program');
  if (program !== undefined && program !== 'ssh-keygen')
    return { problem: 'gpg.ssh.program names a program, and programs of settings are not run' };
  const named = set.get('user.signingkey');
  if (!named) return { problem: 'user.signingKey names no key' };
  const key = publicKey(named.replace(/^~(?=\/)/, home));
  if (!key) return { problem: 'user.signingKey is no public key of ssh and no file with one' };
  const [kind = '', blob = ''] = key.split(' ');
  const held = ssh === undefined ? [] : await keysIn(ssh, powers);
  if (ssh === undefined || !held.includes(blob))
    return { problem: 'the ssh agent does not hold the signing key (SSH_AUTH_SOCK, ssh-add)' };
  const print = createHash('sha256').update(Buffer.from(blob, 'base64')).digest('base64').replace(/=+$/, '');
  const words = [`${kind} ${blob}`];
  return { name: `${kind} SHA256:${print}`, script: SIGN, words, places: [{ path: ssh, at: AGENT_AT }] };
}

const PUBLIC_KEY = /^(?:ssh-|ecdsa-|sk-)[\w.@-]+ [A-Za-z0-9+/]+=*(?= |$)/m;
const KEY_BYTES_MAX = 16 * 1024;

/** The key, which is given itself (`key::ssh-ed25519 …`), or by a file of it or of its private half; without its comment. */
function publicKey(named: string): string | undefined {
  const [given] = PUBLIC_KEY.exec(named.replace(/^key::/, '')) ?? [];
  if (given !== undefined) return given;
  for (const path of [named, `${named}.pub`]) {
    try {
      if (!path.startsWith('/') || statSync(path).size > KEY_BYTES_MAX) continue;
      const [found] = PUBLIC_KEY.exec(readFileSync(path, 'latin1')) ?? [];
      if (found !== undefined) return found;
    } catch {
      // ENOENT, EACCES: the next may be there.
    }
  }
  return undefined;
}
