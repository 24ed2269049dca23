import { posix } from 'node:path';
/** The code of one tool of a plugin, passed as plain data from the pinned plugin to its host. */

export interface PluginCode {
  /** An isolate of its own, or a compartment of a realm that a session's plugins share. */
  readonly isolation: 'isolate' | 'compartment';
  /** Sources of the plugin's modules by path, relative to its folder. */
  readonly modules: Readonly<Record<string, string>>;
  readonly module: string;
  /** Name of the exported function in that module. */
  readonly export: string;
  /** Complete JSON Schemas. */
  readonly input: object;
  readonly output: object;
}

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
