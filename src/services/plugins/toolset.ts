import { defaultLimits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { costTermsOf } from '../../tools/connected.ts';
import { boundedEffects } from '../../tools/declared-effects.ts';
import { withoutNulls } from '../../tools/nulls.ts';
import type { PluginSpec } from '../../tools/runs.ts';
import type { NamedTool, Toolset } from '../../tools/tool.ts';
import { defineTool, type Tool } from '../../tools/tool.ts';
import { calledNames, deprecationWarnings, describedAs, splitName, versionsOf } from '../../tools/versions.ts';
import { type JsonSchema, type ObjectSchema, toZod } from '../pinned/json-schema.ts';
import { toolsOfCapabilities } from './capabilities.ts';
import { effectsOf } from './effects.ts';
import type { Manifest, ManifestTool } from './manifest.ts';
import type { Plugin } from './package.ts';

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_MEMORY_MB = 64;
/** Path of a module that no plugin has: its files begin with no dot. */
const LIFECYCLE = '.lifecycle.js';
/** Characters of the plugin's hash in the version that is shown and recorded. */
const HASH_CHARS = 12;

/** The plugin's tools by name, `plugin__tool`. */
export function toToolset(plugin: Plugin): Toolset {
  return new Map(
    plugin.manifest.tools.flatMap((declared) => {
      const tool = toTool(plugin, declared);
      const called = calledNames(tool.name, declared.name, tool);
      return called.map((name) => [name, named(tool, name)] as const);
    }),
  );
}

/** The name of a tool as the manifest declares it, with its version if it has one. */
export const toolNameOf = ({ name }: Pick<Manifest, 'name'>, tool: Pick<ManifestTool, 'name'>): string =>
  `${name}__${tool.name}`;

function named(tool: Tool, name: string): NamedTool {
  return {
    tool,
    warnings: () => deprecationWarnings(name, tool.deprecated),
    parse: (input) => tool.input.parse(withoutNulls(input, tool.input)),
    parameters: Object.keys(tool.input.shape),
  };
}

function toTool(plugin: Plugin, declared: ManifestTool): Tool {
  const { manifest, sha256 } = plugin;
  const { title, description, tier, limits, effects, deprecated, cost } = declared;
  const { name, major } = splitName(declared.name);
  const all = manifest.tools.map((it) => it.name);
  return defineTool({
    title,
    summary: describedAs(description, deprecated),
    tier,
    name: toolNameOf(manifest, { name }),
    // Kept results and answers of people are bound to it.
    version: `${manifest.version}+${sha256.slice(0, HASH_CHARS)}${major === undefined ? '' : `.${major}`}`,
    ...versionsOf(declared.name, all),
    deprecated,
    capabilities: [{ action: name, description: title }],
    category: 'custom',
    runs: { by: 'isolates', plugin: specOf(plugin, declared) },
    destructive: tier !== 'read_only' && (declared.destructive ?? true),
    idempotent: declared.idempotent ?? tier === 'read_only',
    effects: (input) => boundedEffects(effectsOf(effects, input), defaultLimits),
    narrows: declared.arguments,
    ...(cost !== undefined && { cost: costTermsOf([cost]), estimateCostUsd: () => cost }),
    timeoutMs: () => limits.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    input: toZod(declared.input as ObjectSchema),
    output: toZod(declared.output as ObjectSchema),
    shown: { input: shownOf(declared.input), output: shownOf(declared.output) },
    examples: declared.examples as Tool['examples'],
    aliases: [],
  }) as unknown as Tool;
}

function specOf({ manifest, files }: Plugin, declared: ManifestTool): PluginSpec {
  const { name, capabilities, calls, limits, input, output, export: exported = splitName(name).name } = declared;
  const own = Object.fromEntries(Object.entries(files).filter(([path]) => /\.m?js$/.test(path)));
  const { modules, module } = withLifecycle(own, declared, exported);
  return {
    tools: [...new Set([...toolsOfCapabilities(capabilities), ...calls])],
    memoryMb: limits.memoryMb ?? DEFAULT_MEMORY_MB,
    cpuMs: limits.cpuMs ?? Infinity,
    outputBytes: limits.outputBytes ?? Infinity,
    code: {
      isolation: manifest.isolation,
      modules,
      module,
      export: exported,
      input: shownOf(input),
      output: shownOf(output),
    },
  };
}

/** The modules with one that calls `initialize` and `cleanup` around the tool, if the manifest names them. */
function withLifecycle(modules: Readonly<Record<string, string>>, declared: ManifestTool, exported: string) {
  const { module, initialize, cleanup } = declared;
  if (initialize === undefined && cleanup === undefined) return { modules, module };
  const names = [
    `${exported} as tool`,
    ...[initialize ?? [], cleanup ?? []].flat().map((it, at) => `${it} as step${at}`),
  ];
  const [before, after] = initialize === undefined ? ['', 'step0'] : ['await step0(context);', cleanup && 'step1'];
  const text = `import { ${names.join(', ')} } from './${module}';
export const ${exported} = async (input, context) => {
  ${before}
  try {
    return await tool(input, context);
  } finally {
    ${after === undefined ? '' : `await ${after}(context);`}
  }
};
`;
  return { modules: { ...modules, [LIFECYCLE]: text }, module: LIFECYCLE };
}

/** Removes undefined members. */
const shownOf = (schema: JsonSchema): object => parseJson(JSON.stringify(schema)) as object;
