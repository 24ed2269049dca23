/** The home directories of commands: a folder for each workspace with one for each policy; hosts create, measure and empty them. */

import { hash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { removeTrees } from '../base/remove-trees.ts';

export interface CommandHomesOptions {
  /** The daemon's state directory. */
  readonly stateDir: string;
  readonly limits: Limits;
  readonly powers: Powers;
}

export class CommandHomes {
  readonly #options: CommandHomesOptions;
  readonly #root: string;
  readonly #made = new Set<string>();

  constructor(options: CommandHomesOptions) {
    this.#options = options;
    this.#root = join(options.stateDir, 'homes');
    if (fs.lstatSync(this.#root, { throwIfNoEntry: false })?.isDirectory() === false) fs.unlinkSync(this.#root);
    fs.mkdirSync(this.#root, { recursive: true, mode: 0o700 });
  }

  /**
   * The folder for a workspace, created if missing; undefined if no host could reach it: with a root daemon hosts run as the workspace's
   * owner, who can't enter the state directory.
   */
  folderOf(workspace: string): string | undefined {
    if (process.getuid?.() === 0 && fs.statSync(workspace).uid !== 0) return undefined;
    const folder = join(this.#root, hash('sha256', workspace).slice(0, 32));
    if (this.#made.has(folder)) return folder;
    this.#made.add(folder);
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    const now = this.#options.powers.now() / 1000;
    fs.utimesSync(folder, now, now);
    return folder;
  }

  /** Removes what the commands of a session left in their /tmp. */
  endSession(sessionId: string): void {
    const all = fs.readdirSync(this.#root).map((it) => join(this.#root, it, tmpOf(sessionId)));
    const left = all.filter((it) => fs.existsSync(it));
    if (left.length > 0) this.#remove(left);
  }

  /** Removes homes that were unused for long, and the oldest ones beyond the limit. No host may be running. */
  prune(): void {
    const { homesMax, homeKeptMs } = this.#options.limits;
    const oldest = this.#options.powers.now() - homeKeptMs;
    const all = fs
      .readdirSync(this.#root)
      .map((name) => ({ path: join(this.#root, name), stat: fs.lstatSync(join(this.#root, name)) }))
      .toSorted((a, b) => b.stat.mtimeMs - a.stat.mtimeMs);
    const isKept = ({ path, stat }: (typeof all)[number], i: number) =>
      stat.isDirectory() && !path.endsWith(REMOVED) && stat.mtimeMs > oldest && i < homesMax;
    const removed = all.filter((it, i) => !isKept(it, i)).map(({ path }) => path);
    if (removed.length > 0) this.#remove(removed);
  }

  /** Renames the homes first, so that their names are free at once. */
  #remove(paths: readonly string[]): void {
    const named = paths.map((path) =>
      path.endsWith(REMOVED) ? path : `${path}.${this.#options.powers.uuid()}${REMOVED}`,
    );
    for (const [i, path] of paths.entries()) if (path !== named[i]) fs.renameSync(path, named[i] as string);
    removeTrees(named, 'old homes of commands', this.#options.powers);
  }
}

const REMOVED = '.removed';

/** Name of the folder that the commands of a session have as /tmp; beside the homes, whose names are hashes alone. */
export const tmpOf = (sessionId: string): string => `tmp-${hash('sha256', sessionId).slice(0, 32)}`;
