/** Where the homes of commands lie on disk: a folder for each workspace, in it one for each policy, which hosts make, measure and empty. */
import { hash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';

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

  /** Removes those that no command used for long, and the oldest of too many. No host may be running. */
  constructor(options: CommandHomesOptions) {
    this.#options = options;
    this.#root = join(options.stateDir, 'homes');
    if (fs.lstatSync(this.#root, { throwIfNoEntry: false })?.isDirectory() === false) fs.unlinkSync(this.#root);
    fs.mkdirSync(this.#root, { recursive: true, mode: 0o700 });
    this.#prune();
  }

  /**
   * The folder for a workspace, made when it is not there; undefined where no host could reach it: hosts of a daemon of root run
   * as the workspace's owner, to whom the state directory is closed.
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

  #prune(): void {
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

  /** Under names that no workspace has, at once; then by a program of its own, since a home may hold a million files. */
  #remove(paths: readonly string[]): void {
    const named = paths.map((path) =>
      path.endsWith(REMOVED) ? path : `${path}.${this.#options.powers.uuid()}${REMOVED}`,
    );
    for (const [i, path] of paths.entries()) if (path !== named[i]) fs.renameSync(path, named[i] as string);
    const script = 'chmod -R u+rwX -- "$@" 2>/dev/null; exec rm -rf --one-file-system -- "$@"';
    const child = this.#options.powers.spawn('/bin/sh', ['-c', script, 'sh', ...named], { stdio: 'ignore' });
    // What could not be removed is removed by the next start.
    child.once('error', (error) =>
      this.#options.powers.log.warn({ error }, 'old homes of commands could not be removed'),
    );
  }
}

const REMOVED = '.removed';
