/**
 * The part of the person's environment that commands get: read once at the daemon's start, by an allowlist. A login
 * shell for each command would cost 90 ms and run the person's profile; the list has no variable that may hold a
 * secret.
 */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { isInside } from '../base/paths.ts';
import { realOf } from '../base/quiet/reads.ts';

/** Variables that name things in the system's own folders; values that lead elsewhere are not accepted. */
const TAKEN: readonly { readonly name: RegExp; readonly value: RegExp }[] = [
  { name: /^(LANG|LANGUAGE|LC_[A-Z]{1,20})$/, value: /^[A-Za-z0-9_.@:-]{1,64}$/ },
  { name: /^TZ$/, value: /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/ },
];

/** Variables by which people name the file of a company's authorities to Node, OpenSSL, Python, curl and git. */
const NAMING = [
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'PIP_CERT',
];

/** The absolute paths of these files. */
export const certificatesNamedIn = (env: Readonly<Record<string, string | undefined>>): string[] => [
  ...new Set(NAMING.flatMap((it) => env[it] ?? []).filter(isAbsolute)),
];

/** Folders that every sandbox shows read-only. */
const SYSTEM = ['/usr', '/bin', '/sbin'];
export const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];
const FOLDERS_MAX = 32;

/** The variables for commands: PATH, and LANG, LC_* and TZ if they are plain names. Reads the disk once. */
export function toCommandEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  toolchains: readonly string[],
): Record<string, string> {
  const named = Object.entries(env).filter(
    ([name, value = '']) => TAKEN.some((it) => it.name.test(name) && it.value.test(value)) && !value.includes('..'),
  ) as [string, string][];
  return { ...Object.fromEntries(named), PATH: toPath(env.PATH ?? '', toolchains) };
}

/**
 * The person's PATH in its order, without folders that a sandbox does not show. Toolchains missing from it come
 * first, since a version manager's shims stood for them; the remaining system folders come last.
 */
function toPath(path: string, toolchains: readonly string[]): string {
  const shown = path.split(':').flatMap((it) => shownAs(it, toolchains) ?? []);
  const unnamed = toolchains.filter((it) => !shown.some((folder) => isInside(it, folder)));
  const bins = unnamed.map(binOf);
  return [...new Set([...bins, ...shown, ...SYSTEM_PATH])].slice(0, FOLDERS_MAX).join(':');
}

/** The folder of a toolchain's programs. */
export const binOf = (toolchain: string): string =>
  existsSync(join(toolchain, 'bin')) ? join(toolchain, 'bin') : toolchain;

/** The path of a PATH folder inside a sandbox; undefined if a sandbox does not show it. */
function shownAs(folder: string, toolchains: readonly string[]): string | undefined {
  if (!folder.startsWith('/') || folder.includes('/..')) return undefined;
  const real = realOf(folder);
  if (real === undefined) return undefined;
  // Links such as fnm's lead into a toolchain from a folder that no sandbox shows.
  if (toolchains.some((it) => isInside(it, real))) return real;
  // A link outside of the system's folders is not in the sandbox, wherever it leads.
  const isSystem = SYSTEM.some((it) => isInside(it, folder)) && SYSTEM.some((it) => isInside(it, real));
  return isSystem ? folder : undefined;
}

/** Folders of a home directory with keys and tokens; no toolchain may lie in one or hold one. */
const SECRET = ['.ssh', '.aws', '.gnupg', '.kube', '.docker', '.config', '.password-store'];

export interface ToolchainPaths {
  readonly home: string;
  /** Absolute real paths that commands must not see or write. */
  readonly closed: readonly string[];
  /** Folders that a sandbox replaces by its own. */
  readonly covered?: readonly string[];
}

/** The paths that neither toolchains nor answers of a person may show, for a daemon with these folders. */
export function pathsKept(
  { home, stateDir, socket }: { readonly home: string; readonly stateDir: string; readonly socket: string },
  workspaces: readonly string[],
): ToolchainPaths {
  const realOf = (path: string) => (existsSync(path) ? realpathSync(path) : path);
  return { home: realOf(home), closed: [...workspaces, realOf(stateDir), dirname(socket)] };
}

/**
 * Why no answer of a person shows a folder to commands; undefined if one may. `path` is absolute and real. Beside what no toolchain
 * may be, no home of anybody, since keys lie in most of them, and what programs keep of a person.
 */
export function outsideProblem(path: string, paths: ToolchainPaths): string | undefined {
  if (/^\/(?:home(?:\/[^/]+)?|root)$/.test(path)) return 'holds homes';
  const kept = ['.local', '.mozilla'].map((it) => join(paths.home, it)).find((it) => isInside(it, path));
  return kept === undefined ? toolchainProblem(path, paths) : `lies in ${kept}`;
}

const COVERED = ['/proc', '/dev', '/sys', '/run', '/etc'];

/** Why a folder must not be shown to commands; undefined if it may. `path` is absolute and real. */
export function toolchainProblem(
  path: string,
  { home, closed, covered = ['/tmp'] }: ToolchainPaths,
): string | undefined {
  if (!statSync(path).isDirectory()) return 'is not a directory';
  if (path === '/' || isInside(path, home)) return 'holds the home directory';
  const secret = SECRET.map((it) => join(home, it)).find((it) => isInside(it, path));
  if (secret !== undefined) return `lies in ${secret}`;
  const [other] = closed.filter((it) => isInside(path, it) || isInside(it, path));
  if (other !== undefined) return `overlaps ${other}`;
  const by = [...COVERED, ...covered].find((it) => isInside(it, path));
  return by === undefined ? undefined : `lies in ${by}`;
}
