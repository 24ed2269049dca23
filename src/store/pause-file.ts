/** Whether an operator paused the daemon: kept in a file, so that a restart does not let calls run again. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { parseJson } from '../base/text/json.ts';

const paused = z.strictObject({ at: z.iso.datetime(), by: z.string().max(256) });

/** When the daemon was paused (ISO 8601), and by which principal. */
export type Paused = z.output<typeof paused>;

/** What the file says; undefined if there is none. A file that can't be read counts as a pause by nobody. */
export function readPause(path: string): Paused | undefined {
  if (!existsSync(path)) return undefined;
  try {
    return paused.parse(parseJson(readFileSync(path, 'utf8')));
  } catch {
    return { at: new Date(0).toISOString(), by: 'unknown' }; // Broken by hand or by a full disk.
  }
}

/** Writes the file, or removes it. Throws file system errors. */
export function writePause(path: string, state: Paused | undefined): void {
  if (!state) return rmSync(path, { force: true });
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}
