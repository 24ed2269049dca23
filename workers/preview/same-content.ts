/** Compares entries of an overlay with those below it. */
import * as fs from 'node:fs';
import { below } from '../context/anchor.ts';

interface Spot {
  readonly fd: number;
  readonly name: string;
}

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
const CHUNK_BYTES = 1024 * 1024;

export const isSameLink = (a: Spot, b: Spot): boolean => targetOf(a).equals(targetOf(b));

const targetOf = ({ fd, name }: Spot): Buffer => fs.readlinkSync(below(fd, name), { encoding: 'buffer' });

/** Whether two files of the same size hold the same bytes; false for one that can't be read. */
export async function isSameFile(a: Spot, b: Spot, breathe: () => Promise<void>): Promise<boolean> {
  using files = new DisposableStack();
  try {
    const [one, other] = [a, b].map(({ fd, name }) => {
      const file = fs.openSync(below(fd, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      files.defer(() => fs.closeSync(file));
      return file;
    }) as [number, number];
    const [chunk, otherChunk] = [Buffer.allocUnsafe(CHUNK_BYTES), Buffer.allocUnsafe(CHUNK_BYTES)];
    for (;;) {
      const got = fs.readSync(one, chunk, 0, CHUNK_BYTES, null);
      if (got !== fs.readSync(other, otherChunk, 0, CHUNK_BYTES, null)) return false;
      if (!chunk.subarray(0, got).equals(otherChunk.subarray(0, got))) return false;
      if (got < CHUNK_BYTES) return true;
      await breathe();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    return false; // EACCES, ENOENT, ELOOP
  }
}
