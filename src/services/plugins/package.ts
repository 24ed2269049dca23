/** A plugin as a set of files, read from a folder and identified by one hash, with its manifest. */
import { opendirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { Limits } from '../../base/limits.ts';
import { FileRefusal, readBelow } from '../../policy/file.ts';
import { firstOf, quoteForMessage } from '../../policy/positioned-yaml.ts';
import { PinError } from '../pinned/pin-error.ts';
import { hashOf, type PinnedFiles } from '../pinned/pin-folder.ts';
import { readBySchema } from '../pinned/yaml-file.ts';
import { MANIFEST, type Manifest, manifestSchema } from './manifest.ts';

/** A plugin was refused; each problem begins with its position. */
export interface Plugin {
  readonly manifest: Manifest;
  readonly files: PinnedFiles;
  /** Hash of all file names and contents, in hexadecimal. */
  readonly sha256: string;
}

export const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
/** Most levels of folders below the plugin's own. */
export const DEPTH_MAX = 4;

/** Reads a plugin from a folder, without hidden files and without following links. Throws PinError. */
export function readPlugin(folder: string, limits: Limits): Plugin {
  return toPlugin(readFiles(folder, limits), limits, folder);
}

/** Builds a plugin from its files; `label` names it in problems. Throws PinError. */
export function toPlugin(files: PinnedFiles, limits: Limits, label: string): Plugin {
  const text = Object.hasOwn(files, MANIFEST) ? (files[MANIFEST] as string) : undefined;
  if (text === undefined) throw new PinError([`${label} has no ${MANIFEST}`]);
  const used = Buffer.byteLength(text);
  if (used > limits.pluginManifestBytesMax)
    throw new PinError([`${MANIFEST} has ${used} bytes; at most ${limits.pluginManifestBytesMax} are read`]);
  const { value: manifest, where } = readBySchema(text, manifestSchema, { label: MANIFEST, limits });
  const missing = manifest.tools.flatMap(({ module }, at) =>
    Object.hasOwn(files, module)
      ? []
      : [`${where.at(['tools', at, 'module'])}: tools.${at}.module: the plugin has no file ${module}`],
  );
  if (missing.length > 0) throw new PinError(firstOf(missing));
  return { manifest, files, sha256: hashOf(files) };
}

function readFiles(folder: string, { pluginFilesMax, pluginBytesMax }: Limits): PinnedFiles {
  const files: [string, string][] = [];
  let bytes = 0;
  const refuse = (path: string, why: string) => new PinError([`${join(folder, path)}: ${why}`]);
  const walk = (real: string, components: readonly string[]) => {
    if (components.length > DEPTH_MAX) throw refuse(components.join('/'), `more than ${DEPTH_MAX} folders deep`);
    using directory = opendirSync(join(real, ...components));
    for (let entry = directory.readSync(); entry; entry = directory.readSync()) {
      if (entry.name.startsWith('.')) continue;
      const path = [...components, entry.name];
      const shownPath = quoteForMessage(path.join('/'));
      if (!FILE_NAME.test(entry.name)) throw refuse(shownPath, 'names of files are letters, digits, `.`, `_` and `-`');
      if (entry.isDirectory()) {
        walk(real, path);
        continue;
      }
      if (files.length >= pluginFilesMax) throw refuse(shownPath, `a plugin has at most ${pluginFilesMax} files`);
      const text = readBelow(real, path, pluginBytesMax);
      if (text === undefined) throw refuse(shownPath, 'it went away while it was read');
      bytes += Buffer.byteLength(text);
      if (bytes > pluginBytesMax) throw refuse(shownPath, `a plugin has at most ${pluginBytesMax} bytes`);
      files.push([path.join('/'), text]);
    }
  };
  try {
    walk(realpathSync(folder), []);
  } catch (error) {
    if (error instanceof FileRefusal) throw new PinError([error.message]);
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    throw new PinError([`${folder}: ${(error as NodeJS.ErrnoException).code}: not a folder that can be read`]);
  }
  return Object.fromEntries(files.sort(([a], [b]) => (a < b ? -1 : 1)));
}
