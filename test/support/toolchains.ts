/** Gives a daemon of a test the package managers of the checkout, as `ringfence toolchain add` does with those of a registry. */
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { installToolchain } from '../../src/services/toolchains/installed.ts';
import { repository } from './daemon.ts';

const PACKAGES = { pnpm: 'pnpm', yarn: '@yarnpkg/cli-dist' } as const;

/** Must be called before the daemon starts. */
export async function addToolchain(stateDir: string, name: keyof typeof PACKAGES): Promise<void> {
  const source = join(repository, 'node_modules', PACKAGES[name]);
  const { version } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as { version: string };
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  await installToolchain(stateDir, { name, version, program: name }, async (folder) =>
    cpSync(source, folder, { recursive: true }),
  );
}
