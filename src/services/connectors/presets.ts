/** The connector files that come with Ringfence. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import type { Limits } from '../../base/limits.ts';
import { builtInFolder, readTrusted } from '../../policy/file.ts';

const presetsFolder = (): string => join(dirname(builtInFolder()), 'connectors');

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

interface PresetFile {
  readonly title: string;
  readonly auth?: { readonly secret?: string };
  readonly operations: Readonly<Record<string, { readonly aliases?: readonly (string | { readonly name: string })[] }>>;
}

let presets: readonly { readonly name: string; readonly file: PresetFile; readonly tools: ReadonlySet<string> }[];

/** What brings a tool that a preset has, as the name of its service and the commands; undefined if none has one of that name. */
export function setUpOf(tool: string): { readonly service: string; readonly commands: string } | undefined {
  presets ??= presetNames().map((name) => {
    const file = parse(readFileSync(join(presetsFolder(), `${name}.yaml`), 'utf8')) as PresetFile;
    const tools = Object.entries(file.operations).flatMap(([operation, { aliases = [] }]) => [
      ...[`${name}__${operation}`, `${name}_${operation}`],
      ...aliases.map((it) => (typeof it === 'string' ? it : it.name)),
    ]);
    return { name, file, tools: new Set(tools) };
  });
  const found = presets.find((it) => it.tools.has(tool) || tool.startsWith(`${it.name}__`));
  if (!found) return undefined;
  const { secret } = found.file.auth ?? {};
  const commands = `ringfence connector add ${found.name}${secret === undefined ? '' : `, then ringfence secret set ${secret}`}`;
  return { service: found.file.title, commands };
}
