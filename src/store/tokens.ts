/** Tokens as files: each is read by the daemon's owner alone, and stays the same over restarts until it is rotated. */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Tokens that every daemon has; no principal of the config may be called so. */
export const OWN_TOKENS = ['operator', 'agent'] as const;

const isOwn = (name: string): boolean => (OWN_TOKENS as readonly string[]).includes(name);

/** `operator.token`, `agent.token`, `tokens/<principal>.token`. */
export const tokenPath = (stateDir: string, name: string): string =>
  join(stateDir, ...(isOwn(name) ? [] : ['tokens']), `${name}.token`);

/** Names of the tokens that a state directory holds. */
export function knownTokens(stateDir: string): string[] {
  const folder = join(stateDir, 'tokens');
  const files = existsSync(folder) ? readdirSync(folder).filter((it) => it.endsWith('.token')) : [];
  return [
    ...OWN_TOKENS.filter((it) => existsSync(tokenPath(stateDir, it))),
    ...files.map((it) => basename(it, '.token')),
  ];
}

/** The token of that name; `secret` makes it where there is none. */
export function readOrMakeToken(stateDir: string, name: string, secret: () => string): string {
  const path = tokenPath(stateDir, name);
  if (!existsSync(path)) replaceToken(stateDir, name, secret());
  return readFileSync(path, 'utf8').trim();
}

/** Puts a token in place of the one before, on disk before it returns: a crash leaves one of the two. Throws the system's error. */
export function replaceToken(stateDir: string, name: string, token: string): void {
  const path = tokenPath(stateDir, name);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const fresh = `${path}.new`;
  rmSync(fresh, { force: true });
  const fd = openSync(fresh, 'wx', 0o600);
  try {
    writeSync(fd, `${token}\n`);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(fresh, path);
}
