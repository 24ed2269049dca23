/**
 * What commands have of the person's own environment: taken once, when the daemon starts, by an allowlist. A login shell for
 * each command would cost 90 ms and run whatever its profile says; and no variable that may hold a secret is on the list.
 */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isInside } from './paths.ts';

/** Names of things that programs look up in the system's own folders; anything that leads elsewhere is not taken. */
const TAKEN: readonly { readonly name: RegExp; readonly value: RegExp }[] = [
  { name: /^(LANG|LANGUAGE|LC_[A-Z]{1,20})$/, value: /^[A-Za-z0-9_.@:-]{1,64}$/ },
  { name: /^TZ$/, value: /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/ },
];

/** Folders that every sandbox sees, read-only. */
const SYSTEM = ['/usr', '/bin', '/sbin'];
export const SYSTEM_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];
const FOLDERS_MAX = 32;

/** The variables for commands: PATH, and LANG, LC_* and TZ where they are plain names. Looks at the disk once. */
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
 * The person's PATH in its order, without what a sandbox does not show. Toolchains that it does not name come before it, since
 * shims of a version manager stood for them; the rest of the system's folders come last.
 */
function toPath(path: string, toolchains: readonly string[]): string {
  const shown = path.split(':').flatMap((it) => shownAs(it, toolchains) ?? []);
  const unnamed = toolchains.filter((it) => !shown.some((folder) => isInside(it, folder)));
  const bins = unnamed.map((it) => (existsSync(join(it, 'bin')) ? join(it, 'bin') : it));
  return [...new Set([...bins, ...shown, ...SYSTEM_PATH])].slice(0, FOLDERS_MAX).join(':');
}

/** What a folder of PATH is called in a sandbox; undefined where a sandbox does not show it. */
function shownAs(folder: string, toolchains: readonly string[]): string | undefined {
  if (!folder.startsWith('/') || folder.includes('/..')) return undefined;
  let real: string;
  try {
    real = realpathSync(folder);
  } catch {
    return undefined; // ENOENT
  }
  // Links such as fnm's lead into a toolchain from a place that no sandbox shows.
  if (toolchains.some((it) => isInside(it, real))) return real;
  // A link that lies outside of the system's folders is not in the sandbox, wherever it leads.
  const isSystem = SYSTEM.some((it) => isInside(it, folder)) && SYSTEM.some((it) => isInside(it, real));
  return isSystem ? folder : undefined;
}

/** Folders of a home where keys and tokens lie; no toolchain is in them, nor are they in one. */
const SECRET = ['.ssh', '.aws', '.gnupg', '.kube', '.docker', '.config', '.password-store'];

export interface ToolchainPlaces {
  readonly home: string;
  /** All absolute and real: what no command may see, or may write. */
  readonly closed: readonly string[];
  /** Folders whose place a sandbox fills with its own. */
  readonly covered?: readonly string[];
}

const COVERED = ['/proc', '/dev', '/sys', '/run', '/etc'];

/** Why a folder may not be shown to commands; undefined where it may. `path` is absolute and real. */
export function toolchainProblem(
  path: string,
  { home, closed, covered = ['/tmp'] }: ToolchainPlaces,
): string | undefined {
  if (!statSync(path).isDirectory()) return 'is not a directory';
  if (path === '/' || isInside(path, home)) return 'holds the home directory';
  const secret = SECRET.map((it) => join(home, it)).find((it) => isInside(it, path));
  if (secret !== undefined) return `lies in ${secret}`;
  const [other] = closed.filter((it) => isInside(path, it) || isInside(it, path));
  if (other !== undefined) return `holds, or lies in, ${other}`;
  const by = [...COVERED, ...covered].find((it) => isInside(it, path));
  return by === undefined ? undefined : `lies in ${by}`;
}
