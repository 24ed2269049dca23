/**
 * The files of a container image as a command's system: the image's folders stand where the machine's /usr, /bin, /lib and /etc stand
 * for other commands. All else of the sandbox is the same: workspace, masks, limits, network, seccomp.
 */
import { lstatSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ToolError } from '../base/errors.ts';
import { MiB } from '../base/limits/units.ts';
import type { CommandBounds, Limits } from '../base/limits.ts';
import { nativeProgram } from '../base/native-programs.ts';
import { IMAGE_FILES, toArgs } from './bubblewrap.ts';
import type { Gate, Rlimits } from './command/prologue.ts';
import { entering } from './launch.ts';
import type { Mount } from './mount.ts';

/** An unpacked image. */
export interface ImageRoot {
  /** Absolute path of its files, which hosts of commands see. */
  readonly folder: string;
  /** Absolute paths in it that may be written and are empty, as its author declares them. */
  readonly volumes: readonly string[];
  /** Variables that its author sets. */
  readonly env: Readonly<Record<string, string>>;
}

/** Path of the first program, native/enter.c. */
const ENTER = '/run/enter';
/** What the sandbox itself has there. */
const OWN = ['/proc', '/dev', '/sys', '/tmp', '/run', '/var/tmp', '/etc/hosts'];
/** Bounds the mounts: each folder on the way to the workspace is shown entry by entry. */
const MOUNTS_MAX = 1_000;
const VOLUMES_MAX = 16;

/** The mounts that show an image, without what a sandbox with that workspace has of its own. Throws ENOENT. */
function imageMounts({ folder, volumes }: ImageRoot, workspace: string, volumeBytes: number): Mount[] {
  const written = volumes.filter((it) => !OWN.some((own) => `${it}/`.startsWith(`${own}/`))).slice(0, VOLUMES_MAX);
  const own = [...OWN, ...written, workspace];
  const found: Mount[] = [];
  const show = (path: string): void => {
    for (const name of readdirSync(join(folder, path))) {
      const at = `${path}/${name}`;
      const stat = lstatSync(join(folder, at));
      if (own.includes(at) || found.length >= MOUNTS_MAX) continue;
      if (own.some((it) => it.startsWith(`${at}/`))) {
        // A link there would lead bubblewrap elsewhere with what it mounts below.
        if (stat.isDirectory()) show(at);
      } else if (stat.isSymbolicLink()) found.push({ kind: 'symlink', to: readlinkSync(join(folder, at)), at });
      else if (stat.isDirectory() || stat.isFile()) found.push({ kind: 'ro-at', path: join(folder, at), at });
    }
  };
  show('');
  const empty = written.map((at): Mount => ({ kind: 'tmpfs', at, bytes: volumeBytes }));
  return [...found, ...empty, { kind: 'ro-at', path: nativeProgram('enter'), at: ENTER }];
}

/** The arguments of a sandbox with the files of an image in place. Throws SANDBOX_UNAVAILABLE. */
export function imageArgs(
  image: ImageRoot,
  workspace: string,
  { imageArgs: args = [], limits }: { readonly imageArgs?: readonly string[]; readonly limits: Limits },
): string[] {
  try {
    const files = imageMounts(image, workspace, limits.commandTmpBytes).flatMap(toArgs);
    return args.flatMap((it) => (it === IMAGE_FILES ? files : [it]));
  } catch (error) {
    throw new ToolError('SANDBOX_UNAVAILABLE', `the files of the image can't be shown: ${(error as Error).message}`, {
      suggestion: 'Call again; if it stays so, the person restarts the daemon, which unpacks images anew.',
    });
  }
}

/** The variables of an image; the machine's name programs and files that it lacks. */
export function environmentIn(
  { env }: ImageRoot,
  { HOME = '', LANG, TZ, TERM }: Readonly<Record<string, string>>,
): Record<string, string> {
  const all = Object.entries({ LANG, TZ, TERM, ...env, HOME });
  return Object.fromEntries(all.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

/** The words that start a program of an image, within limits that nothing can raise; it waits at the gate before. */
export function toEnterWords(
  argv: readonly string[],
  { bounds, rlimits, gate }: { bounds: CommandBounds; rlimits: Rlimits; gate?: Gate | undefined },
): string[] {
  const { cpuMs, processes, fileMb } = bounds;
  const { openFiles, addressMib, threadsPerProcess } = rlimits;
  const limits = {
    fileBytes: fileMb * MiB,
    openFiles,
    cpuSeconds: Math.ceil(cpuMs / 1000) + 1,
    addressBytes: addressMib && addressMib * MiB,
    processes: threadsPerProcess && processes * threadsPerProcess + 16,
  };
  return [...entering(limits, { program: ENTER, gate }), ...argv];
}
