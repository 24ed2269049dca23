/** What a module of a plugin may import: other modules of it, by their relative paths. */
import { posix } from 'node:path';
import type { PluginCode } from '../plugin-code.ts';

/** The path of a module that another one imports. Throws SyntaxError for what is no module of the plugin. */
export function resolveImport({ modules }: Pick<PluginCode, 'modules'>, from: string, specifier: string): string {
  const path = posix.join(posix.dirname(from), specifier);
  if (/^\.\.?\//.test(specifier) && Object.hasOwn(modules, path)) return path;
  throw new SyntaxError(
    `${from} imports ${specifier.slice(0, 128)}, which is no module of the plugin; imports are relative, with the ending of the file`,
  );
}

/** Of a plugin whose manifest names what is not there. */
export const missing = ({ module, export: name }: PluginCode): SyntaxError =>
  new SyntaxError(`${module} exports no function ${name}`);
