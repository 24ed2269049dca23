/** Import resolution in plugins: modules may import only other modules of the plugin, by relative path. */
import { posix } from 'node:path';
import type { PluginCode } from '../../base/plugin-code.ts';

/** The path of a module imported by another. Throws SyntaxError if the plugin has no such module. */
export function resolveImport({ modules }: Pick<PluginCode, 'modules'>, from: string, specifier: string): string {
  const path = posix.join(posix.dirname(from), specifier);
  if (/^\.\.?\//.test(specifier) && Object.hasOwn(modules, path)) return path;
  throw new SyntaxError(
    `${from} imports ${specifier.slice(0, 128)}, which is not a module of the plugin; write a relative path with the file extension, such as ./helper.js`,
  );
}

/** The error for a manifest that names a missing export. */
export const missing = ({ module, export: name }: PluginCode): SyntaxError =>
  new SyntaxError(`${module} exports no function ${name}`);
