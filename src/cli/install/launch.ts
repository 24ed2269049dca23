/** How MCP clients start this program, from any folder and at any time. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import * as z from 'zod';
import { bin, version } from '../../base/runtime.ts';
import { parseJson } from '../../base/text/json.ts';
import type { CliCaller } from '../connect.ts';
import type { ServerLaunch } from './mcp-clients.ts';

/**
 * The command that starts us: by name if the person's own PATH has it; through npx if npx runs it now, since npx's copy disappears when
 * npm's cache is cleaned; otherwise by the paths of Node and of the program. `program` is the path of the running program.
 */
export function launchOf({ flags, env }: Pick<CliCaller, 'flags' | 'env'>, program: string = bin): ServerLaunch {
  const where = Object.entries({ socket: flags.socket, state: flags.state }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, value],
  );
  const args = ['mcp', ...where];
  const spec = npxSpec(program);
  if (spec !== undefined) return { command: 'npx', args: ['--yes', `--package=${spec}`, '--', 'ringfence', ...args] };
  const onPath = findOnPath('ringfence', withoutPackages(env.PATH));
  if (onPath !== undefined && started(onPath) === started(program)) return { command: 'ringfence', args };
  return { command: process.execPath, args: [program, ...args] };
}

/** A program without what tells its launcher `bin/ringfence` from the `bin/ringfence.js` that it becomes. */
const started = (path: string): string => realpathSync(path).replace(/\.js$/, '');

/** The path of a program found on PATH; undefined if there is none. */
export const findOnPath = (name: string, path = ''): string | undefined =>
  path
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((it) => existsSync(it));

/** The PATH of a person's shell, without the package folders that npm and npx prepend and that clients do not have. */
const withoutPackages = (path = ''): string =>
  path
    .split(delimiter)
    .filter((it) => !it.endsWith('/node_modules/.bin'))
    .join(delimiter);

const npxFolder = z.object({ _npx: z.object({ packages: z.array(z.string()) }) });

/** The package spec that npx was given, if a program is in npx's cache (`_npx/HASH/node_modules/ringfence`); undefined elsewhere. */
function npxSpec(program: string): string | undefined {
  const folder = /^.*\/_npx\/[^/]+(?=\/node_modules\/ringfence\/)/.exec(program)?.[0];
  if (folder === undefined) return undefined;
  const manifest = join(folder, 'package.json');
  const known = existsSync(manifest) ? npxFolder.safeParse(parseJson(readFileSync(manifest, 'utf8'))).data : undefined;
  // A tarball or a repository keeps its own spec; otherwise the current version from the registry.
  return known?._npx.packages.find((it) => !/^ringfence(@|$)/.test(it)) ?? `ringfence@${version}`;
}
