/** The package as npm installs it, in a folder of its own: packed, unpacked, with the packages that it needs. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from './daemon.ts';

/** Puts the package, and links to those of `tools`, into `node_modules` of a folder. It packs what was built last. */
export function installPackage(folder: string, tools: readonly string[] = [], name = 'ringfence'): void {
  const modules = join(folder, 'node_modules');
  const own = join(modules, name);
  mkdirSync(own, { recursive: true });
  const packed = execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], {
    cwd: name === 'ringfence' ? repository : join(repository, 'packages/client'),
    maxBuffer: 64 * 1024 * 1024,
  });
  const [{ filename }] = JSON.parse(packed.toString()) as [{ filename: string }];
  execFileSync('tar', ['-xzf', join(folder, filename), '-C', own, '--strip-components=1']);
  rmSync(join(folder, filename));
  // What npm would download is in the checkout already.
  symlinkSync(join(repository, 'node_modules'), join(own, 'node_modules'));
  for (const it of tools) symlinkSync(join(repository, 'node_modules', it), join(modules, it));
}
