/** What a command needs to run in its own sandbox, without a daemon and an execute host around it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { runtime } from '../../src/base/runtime.ts';
import { DiskWatch } from '../../src/sandbox/command/disk-watch.ts';
import type { CommandSetup } from '../../src/sandbox/command/request.ts';
import { createSandbox } from '../../src/sandbox/sandbox.ts';
import { Watchdog } from '../../src/sandbox/watchdog.ts';

/** `folder` gets the seccomp filter, and lies outside of `workspace`. */
export async function commandSetupOf(workspace: string, folder: string, powers: Powers): Promise<CommandSetup> {
  const at = { stateDir: folder, workspaces: [workspace], arch: process.arch, platform: process.platform };
  const sandbox = await createSandbox({ runtime, ...at, limits, version: 'test' }, powers);
  const { filter, ownSocketsFilter, homesFolder, openFiles, ...parts } = sandbox.commandSandbox(workspace, {
    isDirect: true,
  });
  const filterFile = join(folder, 'filter');
  writeFileSync(filterFile, filter);
  return {
    ...parts,
    filterFile,
    ownSocketsFilterFile: filterFile,
    environment: { PATH: '/usr/bin:/bin' },
    limits,
    rlimits: { openFiles, addressMib: 16_384 },
    watchdog: new Watchdog(limits, powers),
    disks: new DiskWatch(limits, powers),
  };
}
