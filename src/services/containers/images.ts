/** Images that were unpacked for commands: a folder each in the state directory. Hosts see all of them, a command its own alone. */
import { existsSync, mkdirSync, readdirSync, renameSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import { removeTrees } from '../../base/remove-trees.ts';
import type { Engine, FoundImage } from './engine.ts';

/** Unpacked images that are kept; a daemon removes the oldest of more at its start, when no command uses them. */
const IMAGES_KEPT_MAX = 8;
/** Unpacked images at any time. */
const IMAGES_MAX = 24;
const INCOMING = '.incoming';
const GOING = '.going';

export const imagesFolder = (stateDir: string): string => join(stateDir, 'images');

/** Makes the folder; a daemon does so at its start. */
export const makeImagesFolder = (stateDir: string): void =>
  void mkdirSync(imagesFolder(stateDir), { recursive: true, mode: 0o755 });

/** Removes what was not finished and what is too much, as long as no command uses any. */
export function tidyImages(stateDir: string, powers: Powers): void {
  const folder = imagesFolder(stateDir);
  const byAge = readdirSync(folder)
    .filter((it) => !it.startsWith('.'))
    .map((name) => ({ name, at: statSync(join(folder, name)).atimeMs }))
    .sort((a, b) => b.at - a.at)
    .map(({ name }) => name);
  const kept = new Set(byAge.slice(0, IMAGES_KEPT_MAX));
  const gone = readdirSync(folder).filter((it) => !kept.has(it) && !it.startsWith(GOING));
  // Renamed, so that nobody takes what is being removed for an image.
  for (const it of gone) renameSync(join(folder, it), join(folder, `${GOING}-${powers.uuid()}`));
  const going = readdirSync(folder).filter((it) => it.startsWith(GOING));
  if (going.length > 0)
    removeTrees(
      going.map((it) => join(folder, it)),
      'unpacked images',
      powers,
    );
}

export class Images {
  readonly #folder: string;
  readonly #powers: Powers;
  /** Images that are being unpacked, by their ids. */
  readonly #incoming = new Map<string, Promise<string>>();

  constructor(stateDir: string, powers: Powers) {
    this.#folder = imagesFolder(stateDir);
    this.#powers = powers;
  }

  /** The folder with the image's files, which are unpacked if they are not. Throws UPSTREAM_FAILED, QUEUE_FULL. */
  async unpacked(image: FoundImage, engine: Engine, signal: AbortSignal): Promise<string> {
    const folder = join(this.#folder, image.id);
    if (existsSync(folder)) {
      // Seconds, for the order in which those that were used least are removed.
      utimesSync(folder, this.#powers.now() / 1000, statSync(folder).mtime);
      return folder;
    }
    const under = this.#incoming.get(image.id);
    // If the call that unpacks it is cancelled, this one unpacks it itself.
    if (under) return under.catch(() => this.unpacked(image, engine, signal));
    if (readdirSync(this.#folder).length >= IMAGES_MAX)
      throw new ToolError('QUEUE_FULL', `${IMAGES_MAX} images are unpacked, which is the maximum`, {
        suggestion: 'The person restarts the daemon, which keeps those that were used last.',
      });
    const made = this.#unpack(image.id, engine, signal).finally(() => this.#incoming.delete(image.id));
    this.#incoming.set(image.id, made);
    return made;
  }

  async #unpack(id: string, engine: Engine, signal: AbortSignal): Promise<string> {
    const incoming = join(this.#folder, `${INCOMING}-${this.#powers.uuid()}`);
    const folder = join(this.#folder, id);
    mkdirSync(incoming, { mode: 0o755 });
    try {
      await engine.unpack(id, incoming, signal);
      renameSync(incoming, folder);
      return folder;
    } catch (error) {
      removeTrees([incoming], 'a part of an image', this.#powers);
      throw error;
    }
  }
}
