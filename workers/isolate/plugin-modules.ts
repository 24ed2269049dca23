/** Links the modules of a plugin in an isolate, from their pinned texts only. */
import type ivm from 'isolated-vm';
import type { PluginCode } from '../../src/base/plugin-code.ts';
import { missing, resolveImport } from '../../src/base/plugin-code.ts';
import { codeError, pluginError } from './plugin-outcome.ts';
import type { PreparedIsolate } from './prepared-isolates.ts';

/**
 * Gives the tool's function in the isolate. Synchronous except for the modules' own code: this thread would wait
 * anyway. Throws CODE_ERROR with the position of the error.
 */
export async function linkTool(
  plugin: PluginCode,
  { isolate, context }: PreparedIsolate,
): Promise<ivm.Dereference<unknown>> {
  const { module: entry, modules } = plugin;
  const compiled = new Map<string, ivm.Module>();
  const pathOf = new Map<ivm.Module, string>();
  for (const waiting = [entry]; waiting.length > 0; ) {
    const path = waiting.pop() as string;
    if (compiled.has(path)) continue;
    const module = compile(isolate, path, modules[path] as string);
    compiled.set(path, module);
    pathOf.set(module, path);
    waiting.push(...module.dependencySpecifiers.map((it) => imported(plugin, path, it)));
  }
  const main = compiled.get(entry) as ivm.Module;
  try {
    main.instantiateSync(context, (specifier, referrer) => {
      const path = resolveImport(plugin, pathOf.get(referrer) as string, specifier);
      return compiled.get(path) as ivm.Module;
    });
    await main.evaluate();
  } catch (thrown) {
    throw isOfEngine(thrown) ? thrown : pluginError(thrown, plugin);
  }
  const tool = main.namespace.getSync(plugin.export, { reference: true });
  if (tool.typeof !== 'function') throw pluginError(missing(plugin), plugin);
  return tool.derefInto();
}

function imported(plugin: PluginCode, from: string, specifier: string): string {
  try {
    return resolveImport(plugin, from, specifier);
  } catch (error) {
    throw pluginError(error, plugin);
  }
}

function compile(isolate: ivm.Isolate, filename: string, text: string): ivm.Module {
  try {
    return isolate.compileModuleSync(text, { filename });
  } catch (thrown) {
    const { name, message } = thrown as Error;
    if (name !== 'SyntaxError') throw thrown;
    const [, text = message, file = filename, line = '1', column = '1'] =
      /^(.*) \[(.*):(\d+):(\d+)\]$/s.exec(message) ?? [];
    throw codeError({ name, message: text, file, line: Number(line), column: Number(column) });
  }
}

/** Whether the isolate ended, rather than the plugin failing. */
const isOfEngine = (thrown: unknown): boolean =>
  thrown instanceof Error &&
  /memory limit|allocation failed|isolate (was|is) (already )?disposed/i.test(thrown.message);
