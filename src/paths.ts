/** Questions about path texts; nothing here touches the disk. Paths are relative to a workspace and `/`-separated unless said otherwise. */
import { isAbsolute, relative, resolve } from 'node:path';

/** Whether `path` is `folder` or lies below it; both absolute. Never by prefix: `/ws-evil` is not inside `/ws`. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(resolve(folder), resolve(path));
  return way === '' || (way !== '..' && !way.startsWith('../') && !isAbsolute(way));
}

const SENSITIVE_FOLDERS = new Set(['.ssh', '.aws', '.gnupg', '.kube', '.docker']);
const SENSITIVE_NAMES: readonly RegExp[] = [
  /^\.env/,
  /^\.(netrc|npmrc|pypirc|pgpass|git-credentials|htpasswd)$/,
  /^id_(rsa|dsa|ecdsa|ed25519)$/,
  /\.(pem|key|p12|pfx|jks|keystore|kdbx)$/,
  /secret|password|credential/,
];

/**
 * Whether a file's name says that it holds secrets (`.env*`, private keys, `.ssh/`, `*secret*` …).
 * Case-insensitive, since some file systems are; source: docs/policy.md.
 */
export function isSensitive(path: string): boolean {
  const parts = path.toLowerCase().split('/');
  const name = parts.at(-1) ?? '';
  return parts.slice(0, -1).some((part) => SENSITIVE_FOLDERS.has(part)) || SENSITIVE_NAMES.some((re) => re.test(name));
}

/**
 * Paths below the workspace root that programs outside the sandbox run or trust; an agent that could write them would
 * act with its person's rights later. Commands see them read-only, file tools refuse to write them.
 */
export const PROTECTED_PATHS: readonly string[] = [
  '.git/hooks',
  '.git/config',
  '.mcp.json',
  '.vscode',
  '.idea',
  '.envrc',
  '.ringfence',
];

/**
 * Whether a file tool writing `path` (normal, without links) would change a protected path, or anything of a repository's
 * `.git`, in the root of the workspace or below: a `.git` file, `commondir` or a submodule's config make git run programs too.
 */
export function isProtected(path: string): boolean {
  const wrapped = `/${path.toLowerCase()}/`;
  if (wrapped.includes('/.git/')) return true;
  return PROTECTED_PATHS.some((it) => wrapped.includes(`/${it}/`));
}
