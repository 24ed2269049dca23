/**
 * Plugins that an operator added. Each is copied completely into one file of the state directory, which no workspace or sandbox contains,
 * together with its hash. Later changes of the original folder have no effect.
 */
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import type { Limits } from '../limits.ts';
import { FileRefusal, readTrusted } from '../policy/file.ts';
import { parseJson } from '../text/json.ts';
import { hashOf, type Plugin, PluginError, toPlugin } from './package.ts';

const pinSchema = z.strictObject({
  version: z.literal(1),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** ISO 8601. */
  addedAt: z.string(),
  files: z.record(z.string(), z.string()),
});

/** Factor for the size of JSON: a character may be escaped as six. */
const JSON_FACTOR = 6;

export const pinsFolder = (stateDir: string): string => join(stateDir, 'plugins');

const fileOf = (stateDir: string, name: string): string => join(pinsFolder(stateDir), `${name}.json`);

/** Creates the folder, so that it can be watched, accessible only to its owner. */
export function openPins(stateDir: string): string {
  const folder = pinsFolder(stateDir);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // An unneeded chmod would trigger the watcher, which would reload.
  if ((statSync(folder).mode & 0o777) !== 0o700) chmodSync(folder, 0o700);
  return folder;
}

/** Names of the pinned plugins in order. */
export function pinnedNames(stateDir: string): string[] {
  return readdirSync(openPins(stateDir))
    .flatMap((it) => /^([a-z][a-z0-9_]{0,23})\.json$/.exec(it)?.[1] ?? [])
    .sort();
}

/** Pins a plugin atomically, replacing one with the same name. Throws PluginError if there are too many. */
export function pin(
  stateDir: string,
  { manifest: { name }, files, sha256 }: Plugin,
  { limits: { pluginsMax }, nowMs }: { limits: Limits; nowMs: number },
): void {
  const others = pinnedNames(stateDir).filter((it) => it !== name);
  if (others.length >= pluginsMax)
    throw new PluginError([
      `${others.length} plugins are added, which is the maximum (pluginsMax ${pluginsMax}); remove one with: ringfence plugin remove NAME`,
    ]);
  const path = fileOf(stateDir, name);
  const text = JSON.stringify({ version: 1, sha256, addedAt: new Date(nowMs).toISOString(), files });
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Removes a pinned plugin; false if there was none. */
export function unpin(stateDir: string, name: string): boolean {
  if (!pinnedNames(stateDir).includes(name)) return false;
  rmSync(fileOf(stateDir, name), { force: true });
  return true;
}

/** Reads a pinned plugin and checks its hash. Throws PluginError. */
export function readPin(stateDir: string, name: string, limits: Limits): Plugin {
  const path = fileOf(stateDir, name);
  let raw: unknown;
  try {
    raw = parseJson(readTrusted(path, limits.pluginBytesMax * JSON_FACTOR));
  } catch (error) {
    if (error instanceof FileRefusal || error instanceof SyntaxError)
      throw new PluginError([`${path}: ${error.message}`]);
    throw error;
  }
  const parsed = pinSchema.safeParse(raw);
  if (!parsed.success)
    throw new PluginError([
      `${path}: was not written by \`ringfence plugin add\`; remove it, and add the plugin again`,
    ]);
  const { files, sha256 } = parsed.data;
  const now = hashOf(files);
  if (now !== sha256)
    throw new PluginError([
      `${path}: was changed since it was added: its content has sha256:${now}, not the pinned sha256:${sha256}; check it, then add it again`,
    ]);
  const plugin = toPlugin(files, limits, name);
  if (plugin.manifest.name !== name) throw new PluginError([`${path}: holds the plugin ${plugin.manifest.name}`]);
  return plugin;
}
