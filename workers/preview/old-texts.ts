/** Keeps the texts that a command changed as they were below its preview, so that a commit can merge what others changed since. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { closing } from '../../src/base/disk.ts';
import type { Limits } from '../../src/base/limits.ts';
import { below } from '../context/anchor.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

interface Spot {
  readonly fd: number;
  readonly name: string;
}

export class OldTexts {
  bytes = 0;
  readonly #folder: string;
  readonly #limits: Limits;
  #count = 0;

  /** `folder` is made once there is something to keep. */
  constructor(folder: string, limits: Limits) {
    this.#folder = folder;
    this.#limits = limits;
  }

  /** Keeps the file at `spot`; gives its number. Undefined for what is no text, too large, or beyond the bound of a preview. */
  keep(spot: Spot): number | undefined {
    const { previewOldBytesMax, journalTextBytesMax } = this.#limits;
    const room = previewOldBytesMax - this.bytes;
    const text = readText(spot, Math.min(journalTextBytesMax, room));
    if (!text) return undefined;
    if (this.#count === 0) fs.mkdirSync(this.#folder, { mode: 0o700 });
    fs.writeFileSync(join(this.#folder, `${this.#count}`), text, { mode: 0o600, flag: 'wx' });
    this.bytes += text.length;
    return this.#count++;
  }
}

/** A text that was kept; undefined if it is gone. */
export function oldText(folder: string, number: number, { journalTextBytesMax }: Limits): Buffer | undefined {
  let fd: number;
  try {
    fd = fs.openSync(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch {
    return undefined; // ENOENT
  }
  using _ = closing(fd);
  return readText({ fd, name: `${number}` }, journalTextBytesMax);
}

/** The content of a file; undefined for anything else, for more than `bytesMax`, with a NUL byte, or if it can't be read. */
export function readText({ fd, name }: Spot, bytesMax: number): Buffer | undefined {
  let file: number;
  try {
    file = fs.openSync(below(fd, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch {
    return undefined; // ENOENT, ELOOP, EACCES, ENXIO
  }
  using _ = closing(file);
  const stat = fs.fstatSync(file);
  if (!stat.isFile() || stat.size > bytesMax) return undefined;
  const bytes = fs.readFileSync(file);
  return bytes.length > bytesMax || bytes.includes(0) ? undefined : bytes;
}
