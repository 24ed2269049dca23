/** Finds programs of the system that Ringfence starts. */
import { existsSync } from 'node:fs';

/** The path of a program in the system's own folders; `PATH` is not used, since it may name a workspace. */
export function findProgram(name: string): string | undefined {
  return ['/usr/bin', '/usr/local/bin', '/bin', '/usr/sbin'].map((it) => `${it}/${name}`).find((it) => existsSync(it));
}
