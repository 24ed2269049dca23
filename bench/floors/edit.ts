/** The least that an edit costs that is either whole or not there: read, write anew, flush to the disk, rename. */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';

export function editFile(path: string, change: (text: string) => string): void {
  const text = change(readFileSync(path, 'utf8'));
  const fd = openSync(`${path}.new`, 'w');
  writeSync(fd, text);
  fsyncSync(fd);
  closeSync(fd);
  renameSync(`${path}.new`, path);
}
