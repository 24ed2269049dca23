/** Collects a policy file and all that it extends into a bundle, and puts the files of one into a folder. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import type { Limits } from '../../base/limits.ts';
import { BUILT_IN_NAMES } from '../built-in-policies.ts';
import { PolicyError } from '../policy-error.ts';
import { readYaml } from '../positioned-yaml.ts';
import { bundleOf, type PolicyBundle } from './bundle.ts';

/**
 * The bundle of the file at the absolute path `entry`; `read` gives the text of a path. The names in the bundle are
 * relative to the folder that holds all of its files. Throws PolicyError, and what `read` throws.
 */
export async function collectBundle(
  entry: string,
  read: (path: string) => string | Promise<string>,
  limits: Limits,
): Promise<PolicyBundle> {
  const texts = new Map<string, string>();
  for (let path: string | undefined = entry; path !== undefined && !texts.has(path); ) {
    if (texts.size > limits.policyExtendsMax)
      throw new PolicyError([`${entry}: a chain of \`extends\` may have at most ${limits.policyExtendsMax} files`]);
    const text: string = await read(path);
    texts.set(path, text);
    path = extendedBy(path, text, limits);
  }
  const folder = commonFolder([...texts.keys()]);
  const names = new Map([...texts].map(([path, text]) => [posix.relative(folder, path), text]));
  return bundleOf(posix.relative(folder, entry), names);
}

/** The path of the file that a policy file extends; undefined if it is a built-in policy. Other problems are told when the policy is loaded. */
function extendedBy(path: string, text: string, limits: Limits): string | undefined {
  const { value } = readYaml(text, path, limits);
  const named = (value as { extends?: unknown } | null | undefined)?.extends;
  if (typeof named !== 'string' || (BUILT_IN_NAMES as readonly string[]).includes(named)) return undefined;
  return posix.resolve(posix.dirname(path), named);
}

function commonFolder(paths: readonly string[]): string {
  let folder = posix.dirname(paths[0] as string);
  const holdsAll = () => paths.every((it) => folder === '/' || it.startsWith(`${folder}/`));
  while (!holdsAll()) folder = posix.dirname(folder);
  return folder;
}

/** Writes the files of a bundle into an empty folder that only we can enter; returns the path of the entry. */
export function unpackBundle({ entry, files }: PolicyBundle, folder: string): string {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
  }
  return join(folder, entry);
}
