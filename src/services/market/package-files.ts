/** The part of a package that Ringfence takes: the folder of a plugin, or the file of a connector. */

import type { Limits } from '../../base/limits.ts';
import { FILE } from '../connectors/connector.ts';
import type { PinnedFiles } from '../pinned/pin-folder.ts';
import { MANIFEST } from '../plugins/manifest.ts';
import { DEPTH_MAX, FILE_NAME } from '../plugins/package.ts';
import { MarketError } from './market-error.ts';
import type { MarketKind } from './registry.ts';

/** Folders of a package that may hold its plugin. */
const PLUGIN_FOLDERS = ['plugin/', ''];
/** Files beside a plugin in the package's own folder that are none of it. */
const NOT_OF_PLUGIN = /^(package\.json|readme.*|licen[cs]e.*|changelog.*|npm-shrinkwrap\.json|\..*)$/i;

/** The files by path, as they are pinned. Throws MarketError. */
export function takenFiles(kind: MarketKind, files: ReadonlyMap<string, Buffer>, limits: Limits): PinnedFiles {
  if (kind === 'connector') {
    const content = files.get(FILE);
    if (content === undefined) throw new MarketError(`the package has no ${FILE}`);
    if (content.length > limits.connectorFileBytesMax)
      throw new MarketError(`${FILE} has ${content.length} bytes; at most ${limits.connectorFileBytesMax} are taken`);
    return { [FILE]: toText(FILE, content) };
  }
  const folder = PLUGIN_FOLDERS.find((it) => files.has(`${it}${MANIFEST}`));
  if (folder === undefined) throw new MarketError(`the package has no ${MANIFEST}, nor one in plugin/`);
  const own = [...files]
    .filter(([path]) => path.startsWith(folder) && !isHidden(path))
    .map(([path, content]) => [path.slice(folder.length), content] as const)
    .filter(([path]) => folder !== '' || !NOT_OF_PLUGIN.test(path));
  assertBounds(own, limits);
  return Object.fromEntries(
    own.map(([path, content]) => [path, toText(path, content)]).sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  );
}

const isHidden = (path: string): boolean => path.split('/').some((it) => it.startsWith('.'));

/** The bounds of a plugin's folder, which hold before any of its files is written. */
function assertBounds(files: readonly (readonly [string, Buffer])[], { pluginFilesMax, pluginBytesMax }: Limits): void {
  const bytes = files.reduce((sum, [, content]) => sum + content.length, 0);
  if (files.length > pluginFilesMax)
    throw new MarketError(`the plugin has ${files.length} files; at most ${pluginFilesMax} are taken`);
  if (bytes > pluginBytesMax)
    throw new MarketError(`the plugin has ${bytes} bytes; at most ${pluginBytesMax} are taken`);
  for (const [path] of files) {
    const parts = path.split('/');
    if (parts.length > DEPTH_MAX + 1) throw new MarketError(`${path} is more than ${DEPTH_MAX} folders deep`);
    if (!parts.every((it) => FILE_NAME.test(it)))
      throw new MarketError(`${JSON.stringify(path)}: names of files are letters, digits, \`.\`, \`_\` and \`-\``);
  }
}

function toText(path: string, content: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    throw new MarketError(`${path} is no text in UTF-8`);
  }
}
