/** Packages with a plugin. */
import type { Limits } from '../../base/limits.ts';
import { MarketError } from '../../services/market/market-error.ts';
import { toText } from '../../services/market/package-text.ts';
import { MANIFEST } from '../../services/plugins/manifest.ts';
import { DEPTH_MAX, FILE_NAME } from '../../services/plugins/package.ts';
import { userDirsOf } from '../connect.ts';
import { pluginAdd } from '../plugins/plugin.ts';
import type { PackageKind } from './package-kind.ts';

/** Folders of a package that may hold its plugin. */
const PLUGIN_FOLDERS = ['plugin/', ''];
/** Files beside a plugin in the package's own folder that are none of it. */
const NOT_OF_PLUGIN = /^(package\.json|readme.*|licen[cs]e.*|changelog.*|npm-shrinkwrap\.json|\..*)$/i;

export const plugins: PackageKind = {
  target: '',
  taken(files, limits) {
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
  },
  add(folder, flags, { nowMs, ...caller }) {
    return pluginAdd(folder, flags, { stateDir: userDirsOf(caller.flags, caller.env).stateDir, nowMs });
  },
};

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
