/** The folders of clones on disk: their number, how long those of ended sessions are kept, and their removal. */

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { removeTrees } from '../../base/remove-trees.ts';
import { parseJson } from '../../base/text/json.ts';
import { cloneFiles } from './checkout.ts';

const commit = z.string().regex(/^[0-9a-f]{40}$/);
const about = z.strictObject({
  url: z.string().optional(),
  /** Absent until a client has uploaded its bundle. */
  base: commit.optional(),
  branch: z.string(),
  /** Opens the clone again. Its folder has another name, which stands in records that others may read. */
  key: z.string().regex(/^[0-9a-f]{32}$/),
});
export type AboutClone = z.infer<typeof about>;

export interface Clone {
  readonly id: string;
  /** Absolute path. */
  readonly folder: string;
  about: AboutClone;
  /** When its session ended; undefined while one is open. */
  endedAtMs?: number | undefined;
  timer?: Timer | undefined;
  /** Settles when it is known whether the clone of an ended session is kept. */
  ending?: Promise<void> | undefined;
}

export interface ClonesOptions {
  /** Absolute path of the folder for clones. */
  readonly folder: string;
  readonly limits: Limits;
  readonly powers: Powers;
}

const ID = /^[0-9a-f]{32}$/;

export class Clones implements Disposable {
  readonly #options: ClonesOptions;
  readonly #clones = new Map<string, Clone>();

  /** Keeps the clones of an earlier daemon for another while, since nobody knows when their sessions ended; removes all else. */
  constructor(options: ClonesOptions) {
    this.#options = options;
    const { folder, powers } = options;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(folder)) {
      const path = join(folder, name);
      const known = ID.test(name) ? readAbout(path) : undefined;
      if (!known) this.#removeFolder(path);
      else this.keep(this.#add({ id: name, folder: path, about: known, endedAtMs: powers.now() }));
    }
  }

  get size(): number {
    return this.#clones.size;
  }

  /** Makes the folder of a new clone. Throws RpcError OVERLOADED. */
  create(): Clone {
    const { folder, limits, powers } = this.#options;
    if (this.#clones.size >= limits.fleetClonesMax)
      throw new RpcError('OVERLOADED', `this node has ${this.#clones.size} clones, which is the maximum`);
    const [id, key] = [powers.secret().slice(0, 32), powers.secret().slice(0, 32)];
    const about = { key, branch: `ringfence/${id.slice(0, 8)}` };
    const clone = this.#add({ id, folder: join(folder, id), about });
    mkdirSync(clone.folder, { mode: 0o700 });
    return clone;
  }

  /** Notes what a clone is, once it is whole: without that it is removed at the next start. */
  note(clone: Clone, more: Partial<Pick<AboutClone, 'url' | 'base'>>): void {
    clone.about = { ...clone.about, ...more };
    writeFileSync(cloneFiles(clone.folder).about, JSON.stringify(clone.about), { mode: 0o600 });
  }

  /** Takes a kept clone for another session. Throws RpcError INVALID_PARAMS. */
  async takeKept(key: string): Promise<Clone> {
    const find = () => [...this.#clones.values()].find((it) => it.about.key === key);
    await find()?.ending;
    const found = find();
    if (!found || !existsSync(cloneFiles(found.folder).workspace))
      throw new RpcError('INVALID_PARAMS', 'no workspace is kept under this id; its time may be over');
    if (found.endedAtMs === undefined) throw new RpcError('INVALID_PARAMS', 'another session works in this workspace');
    found.timer?.cancel();
    found.endedAtMs = undefined;
    found.ending = undefined;
    return found;
  }

  /** Keeps a clone whose session has ended, for who comes to collect its changes. */
  keep(clone: Clone): void {
    const { limits, powers } = this.#options;
    clone.endedAtMs ??= powers.now();
    clone.timer = powers.after(limits.fleetKeptMs, () => this.remove(clone));
    const kept = [...this.#clones.values()].filter((it) => it.endedAtMs !== undefined);
    const oldest = kept.sort((a, b) => (a.endedAtMs ?? 0) - (b.endedAtMs ?? 0)).slice(0, -limits.fleetKeptMax);
    for (const it of oldest) this.remove(it);
  }

  remove(clone: Clone): void {
    clone.timer?.cancel();
    if (this.#clones.delete(clone.id)) this.#removeFolder(clone.folder);
  }

  #add(clone: Clone): Clone {
    this.#clones.set(clone.id, clone);
    return clone;
  }

  #removeFolder(path: string): void {
    const removed = path.endsWith(REMOVED) ? path : `${path}${REMOVED}`;
    if (path !== removed && existsSync(path)) renameSync(path, removed);
    removeTrees([removed], 'a clone', this.#options.powers);
  }

  [Symbol.dispose](): void {
    for (const it of this.#clones.values()) it.timer?.cancel();
  }
}

const REMOVED = '.removed';

function readAbout(folder: string): AboutClone | undefined {
  try {
    const parsed = about.safeParse(parseJson(readFileSync(cloneFiles(folder).about, 'utf8')));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined; // ENOENT, a SyntaxError: the daemon ended before the clone was whole.
  }
}
