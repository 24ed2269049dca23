/** Whether a folder tells names by case, which rules and masks for paths take for granted. */
import { lstatSync, opendirSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Names that are looked at for one with letters. */
const NAMES_MAX = 100;

/** False if `.ENV` would be `.env` in the folder, as one of its names shows, or its own name where nothing is mounted at it. */
export function isCaseSensitive(folder: string): boolean {
  const shown = firstNames(folder).find((it) => swapped(it) !== it);
  // Two names of one file may be links: then both stand in the folder.
  if (shown !== undefined) return !isSame(folder, shown) || readdirSync(folder).includes(swapped(shown));
  const parent = dirname(folder);
  return lstatSync(folder).dev !== lstatSync(parent).dev || !isSame(parent, basename(folder));
}

/** A folder may have a million names: some are enough. */
function firstNames(folder: string): string[] {
  using names = opendirSync(folder);
  const read: string[] = [];
  for (let it = names.readSync(); it && read.length < NAMES_MAX; it = names.readSync()) read.push(it.name);
  return read;
}

const isSame = (folder: string, name: string): boolean => {
  const [one, other] = [name, swapped(name)].map((it) => lstatSync(join(folder, it), { throwIfNoEntry: false }));
  return name !== swapped(name) && one !== undefined && one.ino === other?.ino && one.dev === other.dev;
};

/** The name with the case of its letters of ASCII changed. */
const swapped = (name: string): string =>
  name.replaceAll(/[a-zA-Z]/g, (it) => (it < 'a' ? it.toLowerCase() : it.toUpperCase()));

/** Why such a folder is refused. */
export const noCase = (folder: string): string =>
  `${folder} does not tell names by case: \`.ENV\` is \`.env\` there, and rules for paths would not hold; move it to a volume that does`;
