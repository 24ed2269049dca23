/** Finds the system's Chromium, for tools that open pages in a browser. */
import { existsSync } from 'node:fs';
import { findProgram } from './find-program.ts';

/** A browser that may be started in a sandbox. */
export interface Chromium {
  /** Absolute path of the program itself; the scripts that packages put in PATH read settings that no sandbox shows. */
  readonly program: string;
  /** Folder outside of /usr that the program needs. */
  readonly folder?: string;
}

/** Paths of the program in the packages of Debian and Arch, of Fedora, and in Chrome's own. */
const PROGRAMS = ['/usr/lib/chromium/chromium', '/usr/lib64/chromium-browser/chromium-browser'];
const CHROME_FOLDERS = ['/opt/google/chrome', '/opt/chromium.org/chromium'];

export const INSTALL_CHROMIUM =
  'Install Chromium (Debian: apt-get install chromium; Fedora: dnf install chromium) and call again. A snap of it runs in no sandbox.';

/** The installed browser; undefined if there is none that can be started in a sandbox. */
export function findChromium(): Chromium | undefined {
  const program = PROGRAMS.find((it) => existsSync(it));
  if (program !== undefined) return { program };
  for (const folder of CHROME_FOLDERS) {
    const found = [`${folder}/chrome`, `${folder}/chromium`].find((it) => existsSync(it));
    if (found !== undefined) return { program: found, folder };
  }
  // Other distributions put the program itself there.
  const plain = findProgram('chromium');
  return plain === undefined ? undefined : { program: plain };
}
