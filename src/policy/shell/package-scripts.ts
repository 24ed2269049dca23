/** The scripts of package.json that commands run by name, so that a rule on `npm publish` holds for `npm run release` as well. */
import { join } from 'node:path';
import { parseJson } from '../../base/text/json.ts';
import { readText } from '../secrets/ordinary-paths.ts';

const MANAGERS: ReadonlySet<string> = new Set(['npm', 'pnpm', 'yarn', 'bun']);
/** Scripts that run without the word `run`. */
const LIFECYCLE: ReadonlySet<string> = new Set(['test', 'start', 'stop', 'restart']);
/** Largest package.json that is read. */
const MANIFEST_BYTES_MAX = 1024 * 1024;

/** Names of the scripts that a command may run, with those that npm runs before and after. */
export function scriptsRunBy(program: string, words: readonly (string | undefined)[]): string[] {
  if (!MANAGERS.has(program)) return [];
  const [verb, named] = words.slice(1).filter((it) => it !== undefined && !it.startsWith('-'));
  const isRun = verb === 'run' || verb === 'run-script';
  const name = isRun ? named : verb !== undefined && (program !== 'npm' || LIFECYCLE.has(verb)) ? verb : undefined;
  return name === undefined ? [] : [`pre${name}`, name, `post${name}`];
}

/** Text of a script of the package.json in `folder`; undefined if there is none, or the file can't be read. */
export function packageScript(folder: string, name: string): string | undefined {
  try {
    const { scripts } = parseJson(readText(join(folder, 'package.json'), MANIFEST_BYTES_MAX)) as {
      scripts?: Record<string, unknown>;
    };
    const text = scripts && Object.hasOwn(scripts, name) ? scripts[name] : undefined;
    return typeof text === 'string' ? text : undefined;
  } catch {
    // ENOENT and similar, or no JSON: the command itself will say so.
    return undefined;
  }
}
