/** Links a plugin's modules in a compartment: each is a function of its imports, evaluated once per call. */

import { toScript } from '../../src/base/module-script.ts';
import type { PluginCode } from '../../src/base/plugin-code.ts';
import { missing, resolveImport } from '../../src/base/plugin-code.ts';

type Exports = Readonly<Record<string, unknown>>;
type Tool = (input: unknown, context: object) => unknown;

/** Gives the tool's function. Throws what the modules throw, and SyntaxError. */
export async function linkInCompartment(plugin: PluginCode, compartment: Compartment): Promise<Tool> {
  const linked = new Map<string, Exports | undefined>();
  const link = async (path: string): Promise<Exports> => {
    const known = linked.get(path);
    if (known) return known;
    if (linked.has(path))
      throw new SyntaxError(`modules of a compartment import each other in no circle; ${path} does`);
    linked.set(path, undefined);
    const { script, imports } = toScript(plugin.modules[path] as string, path);
    const imported: Exports[] = [];
    for (const { specifier, names } of imports) {
      const exports = await link(resolveImport(plugin, path, specifier));
      const absent = names.find((it) => !Object.hasOwn(exports, it));
      if (absent !== undefined) throw new SyntaxError(`${specifier} does not export ${absent}`);
      imported.push(exports);
    }
    const run = compartment.evaluate(script) as (...given: Exports[]) => Promise<Exports>;
    const exports = harden(await run(...imported));
    linked.set(path, exports);
    return exports;
  };
  const exports = await link(plugin.module);
  const tool = Object.hasOwn(exports, plugin.export) ? exports[plugin.export] : undefined;
  if (typeof tool !== 'function') throw missing(plugin);
  return tool as Tool;
}
