/** How programs that speak MCP start this one, from anywhere and at any time. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import * as z from 'zod';
import { parseJson } from '../parse-json.ts';
import { bin, version } from '../runtime.ts';
import type { Caller } from './connect.ts';
import type { Launch } from './mcp-clients.ts';

/**
 * By its name where a person's own PATH has it, by npx where npx runs it now (npx's copy goes when npm's cache is cleaned),
 * else by Node and its place. `program` is what runs now.
 */
export function launchOf({ flags, env }: Pick<Caller, 'flags' | 'env'>, program: string = bin): Launch {
  const where = Object.entries({ socket: flags.socket, state: flags.state }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, value],
  );
  const args = ['mcp', ...where];
  const spec = npxSpec(program);
  if (spec !== undefined) return { command: 'npx', args: ['--yes', `--package=${spec}`, '--', 'ringfence', ...args] };
  const onPath = findOnPath('ringfence', withoutPackages(env.PATH));
  if (onPath !== undefined && realpathSync(onPath) === realpathSync(program)) return { command: 'ringfence', args };
  return { command: process.execPath, args: [program, ...args] };
}

/** The path of a program, where PATH has it. */
export const findOnPath = (name: string, path = ''): string | undefined =>
  path
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((it) => existsSync(it));

/** The PATH of a person's shell: npm and npx put folders of packages before it, which clients do not have. */
const withoutPackages = (path = ''): string =>
  path
    .split(delimiter)
    .filter((it) => !it.endsWith('/node_modules/.bin'))
    .join(delimiter);

const npxFolder = z.object({ _npx: z.object({ packages: z.array(z.string()) }) });

/** What npx was asked for, where a program lies in its cache (`_npx/HASH/node_modules/ringfence`); undefined elsewhere. */
function npxSpec(program: string): string | undefined {
  const folder = /^.*\/_npx\/[^/]+(?=\/node_modules\/ringfence\/)/.exec(program)?.[0];
  if (folder === undefined) return undefined;
  const manifest = join(folder, 'package.json');
  const known = existsSync(manifest) ? npxFolder.safeParse(parseJson(readFileSync(manifest, 'utf8'))).data : undefined;
  // A tarball or a repository by its own name; else this very version of the registry's.
  return known?._npx.packages.find((it) => !/^ringfence(@|$)/.test(it)) ?? `ringfence@${version}`;
}
