/** Token files: readable only by the daemon's owner, and unchanged across restarts until they are rotated. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { replaceFile } from '../base/disk.ts';

/** Tokens that every daemon has; principals of the config can't have these names. */
export const OWN_TOKENS = ['operator', 'agent', 'metrics'] as const;

const isOwn = (name: string): boolean => (OWN_TOKENS as readonly string[]).includes(name);

/** `operator.token`, `agent.token`, `metrics.token`, `tokens/<principal>.token`. */
export const tokenPath = (stateDir: string, name: string): string =>
  join(stateDir, ...(isOwn(name) ? [] : ['tokens']), `${name}.token`);

/** Names of the tokens in a state directory. */
export function knownTokens(stateDir: string): string[] {
  const folder = join(stateDir, 'tokens');
  const files = existsSync(folder) ? readdirSync(folder).filter((it) => it.endsWith('.token')) : [];
  return [
    ...OWN_TOKENS.filter((it) => existsSync(tokenPath(stateDir, it))),
    ...files.map((it) => basename(it, '.token')),
  ];
}

/** The token with this name; created with `secret` if missing. */
export function readOrMakeToken(stateDir: string, name: string, secret: () => string): string {
  const path = tokenPath(stateDir, name);
  if (!existsSync(path)) replaceToken(stateDir, name, secret());
  return readFileSync(path, 'utf8').trim();
}

/** Replaces a token; it is on disk before this returns, and a crash leaves either the old or the new one. Throws file system errors. */
export function replaceToken(stateDir: string, name: string, token: string): void {
  replaceFile(tokenPath(stateDir, name), `${token}\n`);
}
