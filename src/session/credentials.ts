/** Tokens: who may say hello as whom. Each is a file that only its owner reads, and stays the same over restarts. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Powers } from '../powers.ts';
import { sameSecret } from '../transport/same-secret.ts';
import type { Identity } from './identity.ts';

export interface CredentialsOptions {
  /** Absolute; outside every sandbox. */
  readonly stateDir: string;
  /** Agents of the config file, each with a token of its own. */
  readonly principals: readonly { readonly name: string; readonly policy?: string }[];
}

/** Makes the tokens that are missing: `operator.token`, `agent.token`, `tokens/<principal>.token`. */
export function createCredentials(
  { stateDir, principals }: CredentialsOptions,
  powers: Powers,
): (token: string) => Identity | undefined {
  const known: { secret: string; identity: Identity }[] = [
    {
      secret: secretIn(join(stateDir, 'operator.token'), powers),
      identity: { role: 'operator', principal: 'operator' },
    },
    {
      secret: secretIn(join(stateDir, 'agent.token'), powers),
      identity: { role: 'agent', principal: 'token' },
    },
    ...principals.map(({ name, policy }) => ({
      secret: secretIn(join(stateDir, 'tokens', `${name}.token`), powers),
      identity: { role: 'agent', principal: name, ...(policy !== undefined && { policy }) } as const,
    })),
  ];
  // All are compared, so that the time taken says nothing of which one it is.
  return (token) => known.filter(({ secret }) => sameSecret(token, secret))[0]?.identity;
}

function secretIn(path: string, powers: Powers): string {
  if (!existsSync(path)) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, `${powers.secret()}\n`, { mode: 0o600, flag: 'wx' });
  }
  return readFileSync(path, 'utf8').trim();
}
