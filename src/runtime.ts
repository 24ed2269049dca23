/** Where our own code lies, in the checkout (.ts) and in the published package (.js), and how a host is started from it. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(import.meta.url);
const extension = extname(here);
/** `src` and `workers` lie beside each other here: the package's folder, or its `dist`. */
const base = dirname(dirname(here));
const packageDir = existsSync(join(base, 'package.json')) ? base : dirname(base);

export const version: string = JSON.parse(readFileSync(join(packageDir, 'package.json'), 'utf8')).version;

/** An entry of ours as a file to run. */
export const entry = (name: 'main' | 'cli'): string => join(base, 'src', `${name}${extension}`);

/** Program and arguments of a tier host. */
export const hostProgram: readonly string[] = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--max-semi-space-size=8',
  join(base, 'workers', `host${extension}`),
];

/** What a host must be able to read: Node, our code, and the packages that it loads, wherever they were installed. */
export function runtimePaths(): string[] {
  const modules = ['zod', 'piscina', 'msgpackr', 'mime'].map((name) => {
    const path = fileURLToPath(import.meta.resolve(name));
    return path.slice(0, path.lastIndexOf('/node_modules/') + '/node_modules'.length);
  });
  const ours = extension === '.ts' ? [join(base, 'src'), join(base, 'workers')] : [base];
  const paths = [...ours, join(packageDir, 'package.json'), ...modules, realpathSync(process.execPath)];
  const unique = [...new Set(paths.map((path) => realpathSync(path)))];
  // Inside /usr it is there already.
  return unique.filter(
    (path) => !path.startsWith('/usr/') && !unique.some((it) => it !== path && path.startsWith(`${it}/`)),
  );
}
