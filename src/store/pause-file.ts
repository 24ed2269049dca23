/** What an operator paused: kept in a file, so that a restart does not let calls run again. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import * as z from 'zod';
import { replaceFile } from '../base/disk.ts';
import { parseJson } from '../base/text/json.ts';

const paused = z.strictObject({ at: z.iso.datetime(), by: z.string().max(256) });

/** When something was paused (ISO 8601), and by which principal. */
export type Paused = z.output<typeof paused>;

const state = z.strictObject({ all: paused.optional(), sessions: z.record(z.string().max(64), paused) });

/** The pause of the daemon, and those of single sessions by their ids. */
export type Pauses = z.output<typeof state>;

const file = z.union([state, paused.transform((all): Pauses => ({ all, sessions: {} }))]);

/** What the file says; nothing is paused if there is none. A file that can't be read counts as a pause by nobody. */
export function readPauses(path: string): Pauses {
  if (!existsSync(path)) return { sessions: {} };
  try {
    return file.parse(parseJson(readFileSync(path, 'utf8')));
  } catch {
    return { all: { at: new Date(0).toISOString(), by: 'unknown' }, sessions: {} }; // Broken by hand or by a full disk.
  }
}

/** Writes the file, or removes it if nothing is paused. Throws file system errors. */
export function writePauses(path: string, pauses: Pauses): void {
  if (!pauses.all && Object.keys(pauses.sessions).length === 0) return rmSync(path, { force: true });
  replaceFile(path, `${JSON.stringify(pauses)}\n`);
}
