/** The least cost of an atomic edit: read, write a new file, flush it to disk, rename it. */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';

export function editFile(path: string, change: (text: string) => string): void {
  const text = change(readFileSync(path, 'utf8'));
  const fd = openSync(`${path}.new`, 'w');
  writeSync(fd, text);
  fsyncSync(fd);
  closeSync(fd);
  renameSync(`${path}.new`, path);
}
