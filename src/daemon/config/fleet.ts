/** The folder and the repositories of sessions that a fleet places here. */
import { existsSync, realpathSync } from 'node:fs';
import type * as z from 'zod';
import { type FleetSettings, type fleetSchema, toFleetSettings } from '../../fleet/workspaces/settings.ts';
import type { UserDirs } from '../user-dirs.ts';
import { ConfigError } from './config-error.ts';

/** Throws ConfigError. */
export function toFleet(
  given: z.output<typeof fleetSchema>,
  { dirs, workspaces, toPath }: { dirs: UserDirs; workspaces: readonly string[]; toPath(path: string): string },
): FleetSettings {
  const real = (path: string) => (existsSync(path) ? realpathSync(path) : path);
  const closed = [...workspaces, real(dirs.stateDir)];
  try {
    return toFleetSettings(given, { folder: real(toPath(given.folder)), closed });
  } catch (error) {
    throw new ConfigError(`${dirs.configFile}: ${(error as Error).message}`);
  }
}
