/** `ringfence tool|plugin|connector new NAME`: writes a folder that works at once, with a test of it. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { skeletonsFolder, version } from '../../base/runtime.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, type JsonFlag, OperatorError, print, printJson, UsageError } from '../output.ts';

export type SkeletonKind = 'tool' | 'plugin' | 'connector';

/** Longest name of a plugin and of a connector, which is the beginning of the names of its tools. */
const NAME_CHARS_MAX = 24;

/** How each kind is added to a daemon, once it does what it should. */
const ADD: Record<SkeletonKind, (name: string) => string> = {
  tool: (name) => `ringfence plugin add ${name}/plugin`,
  plugin: (name) => `ringfence plugin add ${name}/plugin`,
  connector: (name) => `ringfence connector add ${name}/connector.yaml`,
};

/** Writes a skeleton into a new folder of the caller's. Returns the exit code. */
export function createSkeleton(
  kind: SkeletonKind,
  name: string,
  { json }: JsonFlag,
  { cwd }: Pick<CliCaller, 'cwd'>,
): number {
  if (!/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(name) || name.length > NAME_CHARS_MAX)
    throw new UsageError(
      `a name has lower-case letters, digits and single _, a letter first, ${NAME_CHARS_MAX} characters at most; not ${harmless(name)}`,
    );
  const folder = join(cwd, name);
  makeNewFolder(folder);
  const files = writeFiles(join(skeletonsFolder, kind), folder, (text) =>
    text.replaceAll('__name__', name).replaceAll('__version__', version),
  );
  const next = [`cd ${name} && npm install && npm test`, ADD[kind](name)];
  if (json) printJson({ folder, files, next });
  else {
    for (const it of files) print(join(name, it));
    print(`\nTest it, change it, and add it:\n  ${next.join('\n  ')}`);
  }
  return EXIT.OK;
}

/** Makes a folder, and nothing above it. Throws OperatorError if something has its name. */
function makeNewFolder(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const reason = code === 'EEXIST' ? 'is there already; nothing was changed' : `can't be made: ${code}`;
    throw new OperatorError(`${harmless(folder)} ${reason}`);
  }
}

/** Copies the files of a skeleton, filled in by `fill`. Gives their paths. */
function writeFiles(from: string, to: string, fill: (text: string) => string): string[] {
  const entries = readdirSync(from, { recursive: true, withFileTypes: true }).filter((it) => it.isFile());
  const paths = entries.map((it) => join(it.parentPath, it.name).slice(from.length + 1)).sort();
  return paths.map((path) => {
    const filled = fill(path);
    mkdirSync(dirname(join(to, filled)), { recursive: true });
    writeFileSync(join(to, filled), fill(readFileSync(join(from, path), 'utf8')), { flag: 'wx' });
    return filled;
  });
}
