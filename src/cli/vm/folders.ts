/** Which folders of the host the machine may have. */
import { realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isCaseSensitive, noCase } from '../../base/case.ts';
import { isInside } from '../../base/paths.ts';
import { showLine } from '../../base/text/shown-text.ts';
import type { UserDirs } from '../../daemon/user-dirs.ts';
import { UsageError } from '../output.ts';

const VOLUME =
  'one that shares the space of your disk: diskutil apfs addVolume disk3 "Case-sensitive APFS" Projects (disk3 is the container that `diskutil apfs list` shows)';

/** The real paths of folders that agents may change. Throws UsageError for one that holds more than a project, and says why. */
export function foldersFor(named: readonly string[], { home, stateDir }: UserDirs): string[] {
  const folders = [...new Set(named.map(realOf))];
  // What starts programs of this person, or holds their keys.
  const ours = [home, stateDir, process.execPath, process.argv[1] ?? home].map((it) => toReal(it));
  for (const folder of folders) {
    const refuse = (why: string) => new UsageError(`${showLine(folder)} ${why}`);
    if (/[\s{}"\\\p{C}]/u.test(folder))
      throw refuse(
        'has a space, a brace, a quote or a control character in its path, which Lima may misread; rename it',
      );
    const held = ours.find((it) => isInside(folder, it));
    if (held !== undefined)
      throw refuse(`holds ${showLine(held)}, which agents must not change; name the folder of a project`);
    const [first = ''] = isInside(toReal(home), folder) ? folder.slice(toReal(home).length + 1).split('/') : [];
    if (first.startsWith('.') || first === 'Library')
      throw refuse('holds settings of your programs; name the folder of a project');
    if (statSync(folder).uid !== process.getuid?.()) throw refuse('belongs to another user');
    const outer = folders.find((it) => it !== folder && isInside(it, folder));
    if (outer !== undefined) throw refuse(`lies in ${showLine(outer)}; name one of them`);
    if (!isCaseSensitive(folder)) throw new UsageError(`${noCase(showLine(folder))}. To make ${VOLUME}`);
  }
  return folders;
}

function realOf(named: string): string {
  const real = toReal(named);
  if (statSync(real, { throwIfNoEntry: false })?.isDirectory()) return real;
  throw new UsageError(`${showLine(named)} is no folder`);
}

/** The real path, with its names written as the disk has them; of what does not exist that of its parent. */
function toReal(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return dirname(path) === path ? path : join(toReal(dirname(path)), path.slice(dirname(path).length)); // ENOENT
  }
}
