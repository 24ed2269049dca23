import { chmodSync, existsSync, mkdirSync, realpathSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Writes a file atomically and keeps its mode; follows a link to the real file. */
export function writeWhole(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  const real = existsSync(path) ? realpathSync(path) : path;
  const mode = existsSync(real) ? statSync(real).mode & 0o777 : 0o600;
  const fresh = `${real}.${process.pid}.ringfence`;
  writeFileSync(fresh, text, { mode: 0o600, flag: 'wx' });
  chmodSync(fresh, mode); // Not affected by the umask.
  renameSync(fresh, real);
}
