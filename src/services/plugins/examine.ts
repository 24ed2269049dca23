/** Checks a plugin's code and examples without running any of it, when a person adds the plugin; a daemon does not repeat this. */
import { loadIsolatedVm } from '../../base/native-programs.ts';
import type { PluginCode } from '../../base/plugin-code.ts';
import { resolveImport } from '../../base/plugin-code.ts';
import type { JsonSchema } from '../pinned/json-schema.ts';
import type { ManifestTool } from './manifest.ts';
import type { Plugin } from './package.ts';

/** One line for each problem with its position; none if the modules parse and the examples match the schemas. */
export async function problemsOf(plugin: Plugin): Promise<string[]> {
  const modules = Object.fromEntries(Object.entries(plugin.files).filter(([path]) => /\.m?js$/.test(path)));
  const found = await Promise.all([moduleProblems(plugin, { modules }), exampleProblems(plugin.manifest.tools)]);
  return found.flat();
}

const PARSE_MEMORY_MB = 64;

async function moduleProblems({ manifest }: Plugin, { modules }: Pick<PluginCode, 'modules'>): Promise<string[]> {
  const ivm = loadIsolatedVm();
  const { toScript } = await import('../../base/module-script.ts');
  const isolate = new ivm.Isolate({ memoryLimit: PARSE_MEMORY_MB });
  const problems: string[] = [];
  try {
    for (const [path, text] of Object.entries(modules)) {
      try {
        const module = await isolate.compileModule(text, { filename: path });
        for (const specifier of module.dependencySpecifiers) resolveImport({ modules }, path, specifier);
        // A compartment additionally lacks `import.meta` and the names that stand for imports.
        if (manifest.isolation === 'compartment')
          await isolate.compileScript(toScript(text, path).script, { filename: path });
      } catch (error) {
        problems.push(`${path}: ${(error as Error).message}`);
      }
    }
  } finally {
    isolate.dispose();
  }
  return problems;
}

async function exampleProblems(tools: readonly ManifestTool[]): Promise<string[]> {
  const { Ajv } = await import('ajv');
  const fits = (schema: JsonSchema, value: unknown): string | undefined => {
    const validate = new Ajv({ strict: false, validateFormats: false, logger: false }).compile(schema);
    if (validate(value)) return undefined;
    const [error] = validate.errors ?? [];
    return `${error?.instancePath.slice(1).replaceAll('/', '.') || 'it'} ${error?.message}`;
  };
  return tools.flatMap(({ name, input, output, examples }) =>
    examples.flatMap((example, at) => {
      const where = `example ${at + 1} of ${name}`;
      const problem = fits(input, example.input);
      if ('error' in example) {
        if (example.error === 'INPUT_INVALID') return problem === undefined ? [`${where}: its input is right`] : [];
        return problem === undefined ? [] : [`${where}: input: ${problem}`];
      }
      // An example may show only a part of the output.
      const shown = fits({ ...output, required: [] }, example.output);
      return [...(problem ? [`${where}: input: ${problem}`] : []), ...(shown ? [`${where}: output: ${shown}`] : [])];
    }),
  );
}
