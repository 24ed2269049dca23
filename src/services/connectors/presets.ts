/** The connector files that come with Ringfence. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Limits } from '../../base/limits.ts';
import { builtInFolder, readTrusted } from '../../policy/file.ts';

/** The folder with a file for each preset. */
const presetsFolder = (): string => join(dirname(builtInFolder()), 'connectors');

/** Names of the presets in order. */
export const presetNames = (): string[] =>
  readdirSync(presetsFolder())
    .flatMap((it) => /^([a-z_]+)\.yaml$/.exec(it)?.[1] ?? [])
    .sort();

/** The text of a preset; undefined if there is none of that name. */
export function presetText(name: string, { connectorFileBytesMax }: Limits): string | undefined {
  if (!/^[a-z_/]+$/.test(name)) return undefined;
  const path = join(presetsFolder(), `${name}.yaml`);
  return existsSync(path) ? readTrusted(path, connectorFileBytesMax) : undefined;
}
