/**
 * Answers of web servers in files of the state directory, for each principal by itself, least recently used dropped
 * first. Whether an answer still holds is the reader's to decide. No file error reaches a caller: an answer that can't
 * be read, or kept, is one that is not there.
 */
import { hash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { parseJson } from '../base/text/json.ts';
import type { DiskRoom } from './disk-room.ts';

export interface WebCacheOptions {
  /** Absolute path; created if missing. */
  readonly folder: string;
  readonly limits: Pick<Limits, 'webCacheBytesMax' | 'webCacheEntriesMax' | 'webCachePrincipalsMax' | 'webCacheKeptMs'>;
  readonly powers: Pick<Powers, 'monotonicMs' | 'uuid' | 'log'>;
  readonly room: Pick<DiskRoom, 'has' | 'wrote' | 'register'>;
}

export interface WebCacheEntry {
  /** What the reader wrote beside the body, as JSON. */
  readonly about: unknown;
  readonly body: Uint8Array;
}

/** Sizes of a principal's files by name; dropping one removes the file. */
type Shelf = LRUCache<string, number>;

/** Bytes in front of the JSON that hold its length. */
const LENGTH_BYTES = 4;
/** Smaller files are read at once, 0.1 ms: `readFile` waits four times for a thread, which on a busy machine takes milliseconds. */
const SYNC_BYTES_MAX = 256 * 1024;
/** An answer larger than this part of a principal's room would push out everything else. */
const SHARE = 8;

export class WebCache {
  readonly #options: WebCacheOptions;
  readonly #shelves = new Map<string, Promise<Shelf>>();

  /** Takes over the files of an earlier daemon. Throws what mkdir throws. */
  constructor(options: WebCacheOptions) {
    this.#options = options;
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    options.room.register('web', () => this.clear().entries > 0);
  }

  async get(principal: string, key: string): Promise<WebCacheEntry | undefined> {
    const folder = this.#folderOf(principal);
    const name = nameOf(key);
    try {
      const shelf = await this.#shelfOf(folder);
      const bytes = shelf.get(name);
      if (bytes === undefined) return undefined;
      const path = join(folder, name);
      return toEntry(bytes > SYNC_BYTES_MAX ? await readFile(path) : readFileSync(path));
    } catch (error) {
      this.#options.powers.log.debug({ error }, 'a kept web answer could not be read');
      return undefined;
    }
  }

  /** Keeps an answer instead of the one before. `about` must have a JSON form. */
  async put(principal: string, key: string, { about, body }: WebCacheEntry): Promise<void> {
    const { limits, powers, room } = this.#options;
    const head = Buffer.from(JSON.stringify(about));
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32LE(head.length);
    const bytes = LENGTH_BYTES + head.length + body.length;
    if (bytes > limits.webCacheBytesMax / SHARE || !room.has(bytes)) return;
    const folder = this.#folderOf(principal);
    const name = nameOf(key);
    const unfinished = join(folder, `${powers.uuid()}${UNFINISHED}`);
    try {
      const shelf = await this.#shelfOf(folder);
      await writeFile(unfinished, [length, head, body], { mode: 0o600, flag: 'wx' });
      await rename(unfinished, join(folder, name));
      room.wrote(bytes);
      shelf.set(name, bytes);
    } catch (error) {
      // ENOENT: the cache was cleared meanwhile. ENOSPC and others: the answer is not kept.
      powers.log.debug({ error }, 'a web answer could not be kept');
      await rm(unfinished, { force: true });
    }
  }

  /** Removes all answers and returns how much that was. */
  clear(): { entries: number; bytes: number } {
    const { folder } = this.#options;
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((it) => it.isFile());
    const bytes = files.reduce((sum, it) => sum + (statSync(join(it.parentPath, it.name), QUIET)?.size ?? 0), 0);
    this.#shelves.clear();
    for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true });
    return { entries: files.length, bytes };
  }

  #folderOf(principal: string): string {
    return join(this.#options.folder, nameOf(principal));
  }

  #shelfOf(folder: string): Promise<Shelf> {
    const known = this.#shelves.get(folder);
    if (known) return known;
    const opened = this.#open(folder);
    this.#shelves.set(folder, opened);
    opened.catch(() => this.#shelves.delete(folder));
    return opened;
  }

  async #open(folder: string): Promise<Shelf> {
    await this.#makePlace(folder);
    const { limits, powers } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const found = await Promise.all(
      (await readdir(folder)).map(async (name) => ({ name, stat: await stat(join(folder, name)) })),
    );
    const shelf: Shelf = new LRUCache({
      max: limits.webCacheEntriesMax,
      maxSize: limits.webCacheBytesMax,
      ttl: limits.webCacheKeptMs,
      ttlAutopurge: false,
      sizeCalculation: (bytes) => Math.max(1, bytes),
      perf: { now: () => powers.monotonicMs() },
      dispose: (_, name, reason) => {
        if (reason === 'set') return;
        rm(join(folder, name), { force: true }).catch((error: unknown) =>
          powers.log.debug({ error }, 'a web answer stays'),
        );
      },
    });
    for (const { name, stat: it } of found.sort((a, b) => a.stat.mtimeMs - b.stat.mtimeMs))
      if (name.endsWith(UNFINISHED)) await rm(join(folder, name), { force: true });
      else shelf.set(name, it.size);
    return shelf;
  }

  /** Removes the answers of the principal who had none for longest, if there are too many principals. */
  async #makePlace(folder: string): Promise<void> {
    const { folder: root, limits } = this.#options;
    const others = (await readdir(root)).map((it) => join(root, it)).filter((it) => it !== folder);
    if (others.length < limits.webCachePrincipalsMax) return;
    const times = await Promise.all(others.map(async (path) => ({ path, at: (await stat(path)).mtimeMs })));
    const oldest = times.sort((a, b) => a.at - b.at)[0]?.path as string;
    this.#shelves.delete(oldest);
    await rm(oldest, { recursive: true, force: true });
  }
}

const UNFINISHED = '.new';
const QUIET = { throwIfNoEntry: false } as const;

/** Names of principals and keys of answers say too much, and could be no file names. */
const nameOf = (text: string): string => hash('sha256', text);

/** Throws for a file that is not whole. */
function toEntry(bytes: Buffer): WebCacheEntry {
  const end = LENGTH_BYTES + bytes.readUInt32LE();
  if (end > bytes.length) throw new Error('a kept web answer is not whole');
  return { about: parseJson(bytes.toString('utf8', LENGTH_BYTES, end)), body: bytes.subarray(end) };
}
