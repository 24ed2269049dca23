/** Images for tests in a store of their own, made of the machine's busybox: no registry is asked. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryDir } from './daemon.ts';

const PODMAN = '/usr/bin/podman';
const BUSYBOX = ['/bin/busybox', '/usr/bin/busybox'].find((it) => existsSync(it));

/** Why there are no images, for the names of tests that are skipped; undefined if there are. */
export const missingPodman = !existsSync(PODMAN)
  ? 'no Podman: run script/bootstrap --containers'
  : BUSYBOX === undefined
    ? 'no busybox-static: run script/bootstrap --containers'
    : process.getuid?.() !== 0 && !existsSync('/usr/bin/newuidmap')
      ? 'no uidmap, which Podman needs for a user who is not root: run script/bootstrap --containers'
      : undefined;

export interface ImageStore extends Disposable {
  /** Variables that lead an engine here. */
  readonly env: Record<string, string>;
  podman(...args: string[]): string;
  /** Imports an image with busybox and what `fill` adds to the folder of its files. */
  add(name: string, changes?: readonly string[], fill?: (folder: string) => void): void;
}

export function openImageStore(): ImageStore {
  const folder = temporaryDir('images');
  const config = join(folder, 'storage.conf');
  const at = (name: string) => JSON.stringify(join(folder, name));
  // Overlays of overlays, as in a container, do not mount.
  writeFileSync(config, `[storage]\ndriver = "vfs"\ngraphroot = ${at('root')}\nrunroot = ${at('run')}\n`);
  const env = { CONTAINERS_STORAGE_CONF: config, HOME: folder };
  const podman = (...args: string[]) =>
    execFileSync(PODMAN, args, {
      env: { ...env, PATH: '/usr/bin:/bin' },
      stdio: ['ignore', 'pipe', 'ignore'],
    }).toString();
  return {
    env,
    podman,
    add(name, changes = [], fill) {
      const files = join(folder, 'files');
      mkdirSync(join(files, 'bin'), { recursive: true });
      execFileSync('cp', [BUSYBOX as string, join(files, 'bin/busybox')]);
      for (const it of ['sh', 'ls', 'cat', 'echo', 'touch', 'id', 'sleep', 'env', 'pwd', 'mkdir', 'head', 'nc', 'true'])
        symlinkSync('busybox', join(files, 'bin', it));
      fill?.(files);
      execFileSync('tar', ['-C', files, '-cf', join(folder, 'files.tar'), '.']);
      podman('import', ...changes.flatMap((it) => ['--change', it]), join(folder, 'files.tar'), name);
      rmSync(files, { recursive: true });
    },
    [Symbol.dispose]() {
      podman('system', 'reset', '--force');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
