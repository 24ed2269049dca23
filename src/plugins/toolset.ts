/** Converts the tools of a plugin for the pipeline. No plugin code runs here. */
import { ToolError } from '../errors.ts';
import { defaultLimits } from '../limits.ts';
import type { NamedTool, Toolset } from '../pipeline/stage.ts';
import { parseJson } from '../text/json.ts';
import { boundedEffects } from '../tools/declared-effects.ts';
import { withoutNulls } from '../tools/nulls.ts';
import { defineTool, type PluginSpec, type Tool } from '../tools/tool.ts';
import { toolsOfCapabilities } from './capabilities.ts';
import { effectsOf } from './effects.ts';
import { type JsonSchema, type ObjectSchema, toZod } from './json-schema.ts';
import type { Manifest, ManifestTool } from './manifest.ts';
import type { Plugin } from './package.ts';

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_MEMORY_MB = 64;
/** Characters of the plugin's hash in the version that is shown and recorded. */
const HASH_CHARS = 12;

/** The plugin's tools by name, `plugin__tool`. */
export function toToolset(plugin: Plugin): Toolset {
  const tools = plugin.manifest.tools.map((declared) => toTool(plugin, declared));
  return new Map(tools.map((tool) => [tool.name, named(tool)]));
}

export const toolNameOf = ({ name }: Pick<Manifest, 'name'>, tool: Pick<ManifestTool, 'name'>): string =>
  `${name}__${tool.name}`;

function named(tool: Tool): NamedTool {
  return {
    tool,
    parse: (input) => tool.input.parse(withoutNulls(input, tool.input)),
    parameters: Object.keys(tool.input.shape),
  };
}

function toTool(plugin: Plugin, declared: ManifestTool): Tool {
  const { manifest, sha256 } = plugin;
  const { title, description, tier, limits, effects } = declared;
  return defineTool({
    title,
    summary: description,
    tier,
    name: toolNameOf(manifest, declared),
    version: `${manifest.version}+${sha256.slice(0, HASH_CHARS)}`,
    capabilities: [{ action: declared.name, description: title }],
    category: 'custom',
    isolated: true,
    destructive: tier !== 'read_only' && (declared.destructive ?? true),
    idempotent: declared.idempotent ?? tier === 'read_only',
    effects: (input) => boundedEffects(effectsOf(effects, input), defaultLimits),
    timeoutMs: () => limits.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    input: toZod(declared.input as ObjectSchema),
    output: toZod(declared.output as ObjectSchema),
    shown: { input: shownOf(declared.input), output: shownOf(declared.output) },
    plugin: specOf(plugin, declared),
    examples: declared.examples as Tool['examples'],
    aliases: [],

    run() {
      throw new ToolError('INTERNAL', 'code of plugins runs in plugin hosts only');
    },
  }) as unknown as Tool;
}

function specOf({ manifest, files }: Plugin, declared: ManifestTool): PluginSpec {
  const { name, capabilities, limits, module, input, output } = declared;
  const modules = Object.fromEntries(Object.entries(files).filter(([path]) => /\.m?js$/.test(path)));
  return {
    tools: toolsOfCapabilities(capabilities),
    memoryMb: limits.memoryMb ?? DEFAULT_MEMORY_MB,
    cpuMs: limits.cpuMs ?? Infinity,
    outputBytes: limits.outputBytes ?? Infinity,
    code: {
      isolation: manifest.isolation,
      modules,
      module,
      export: declared.export ?? name,
      input: shownOf(input),
      output: shownOf(output),
    },
  };
}

/** Removes undefined members. */
const shownOf = (schema: JsonSchema): object => parseJson(JSON.stringify(schema)) as object;
