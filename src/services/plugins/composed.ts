/** A composed batch or program as a plugin of one tool, `NAME__run`: pinned, versioned and removed as other plugins are. */
import * as z from 'zod';
import type { Tier } from '../../base/call.ts';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { TIERS } from '../../base/result-shapes.ts';
import { parseJson } from '../../base/text/json.ts';
import { planBatch } from '../../pipeline/batch/plan.ts';
import { type ComposedCall, INPUT, toProgram } from '../../pipeline/batch/program.ts';
import { runsBy } from '../../tools/runs.ts';
import type { Toolset } from '../../tools/tool.ts';
import { splitName } from '../../tools/versions.ts';
import { type JsonSchema, objectSchema } from '../pinned/json-schema.ts';
import { PinError } from '../pinned/pin-error.ts';
import type { PinFolder, PinnedFiles } from '../pinned/pin-folder.ts';
import { problemsOf } from './examine.ts';
import { MANIFEST, type ManifestTool } from './manifest.ts';
import { type Plugin, toPlugin } from './package.ts';

/** The file that marks a plugin as composed. */
const COMPOSITION = 'composition.json';
/** Versions that stay callable, the newest included. */
const VERSIONS_MAX = 4;

const text = (max: number) => z.string().min(1).max(max);
const call = z.strictObject({
  id: text(128)
    .regex(/^[^\s.${}[\]]+$/)
    .refine((it) => it !== INPUT, `no call is named ${INPUT}: \${${INPUT}.NAME} is an input`),
  tool: text(128),
  input: z.unknown(),
  dependsOn: z.array(z.string().max(128)).max(1000).optional(),
});
const common = {
  description: text(1024),
  /** JSON Schemas by name; those without a default have to be given. `${input.NAME}` stands for one in a call. */
  inputs: objectSchema.shape.properties,
  examples: z
    .array(
      z.strictObject({
        input: z.record(z.string(), z.unknown()),
        output: z.record(z.string(), z.unknown()).optional(),
      }),
    )
    .max(32)
    .default([]),
};
const composition = z.union([
  z.strictObject({ ...common, calls: z.array(call).min(1).max(64) }),
  z.strictObject({ ...common, program: text(65_536), tools: z.array(text(128)).max(64) }),
]);
type Composition = z.output<typeof composition>;

export interface ComposedParts {
  readonly pins: PinFolder;
  readonly limits: Limits;
  readonly toolset: Toolset;
  readonly nowMs: number;
}

/** Whether nothing but a composed tool has the name. */
export const isComposed = (name: string, pins: PinFolder): boolean =>
  !pins.names().includes(name) || Object.hasOwn(pins.read(name), COMPOSITION);

/** Pins what was composed as the next version of `name`. Throws RpcError INVALID_PARAMS. */
export async function saveComposed(name: string, composed: unknown, parts: ComposedParts): Promise<Plugin> {
  const { pins, limits, nowMs } = parts;
  try {
    const plugin = toPlugin(filesOf(name, composed, parts), limits, name);
    const problems = await problemsOf(plugin);
    if (problems.length > 0) throw new PinError(problems);
    pins.add(name, plugin.files, nowMs);
    return plugin;
  } catch (error) {
    if (!(error instanceof PinError || error instanceof ToolError || error instanceof z.ZodError)) throw error;
    const message = error instanceof z.ZodError ? z.prettifyError(error) : error.message;
    throw new RpcError('INVALID_PARAMS', `${name} is not saved: ${message}`);
  }
}

function filesOf(name: string, composed: unknown, parts: ComposedParts): PinnedFiles {
  const it = composition.parse(composed);
  const old = olderVersions(name, parts);
  const version = 1 + Math.max(0, ...old.tools.map((tool) => splitName(tool.name).major ?? 0));
  const code = 'calls' in it ? toProgram(it.calls, orderOf(it.calls)) : it.program;
  const tool = toolOf(it, `run-${version}.js`, { name, version, toolset: parts.toolset });
  const kept = old.tools.slice(0, VERSIONS_MAX - 1);
  return {
    [MANIFEST]: JSON.stringify({ name, version: `${version}.0.0`, title: name, tools: [tool, ...kept] }),
    [COMPOSITION]: JSON.stringify(composed),
    [tool.module]: `export const run = async (${INPUT}, { tools, console }) => ({ value: await (async () => {\n${code}\n})() });\n`,
    ...Object.fromEntries(kept.map(({ module }) => [module, old.files[module] as string])),
  };
}

/** The tools of what has the name now, the newest first. Throws PinError if that was not composed. */
function olderVersions(name: string, { pins, limits }: ComposedParts): { tools: ManifestTool[]; files: PinnedFiles } {
  if (!pins.names().includes(name)) return { tools: [], files: {} };
  if (!isComposed(name, pins)) throw new PinError([`a plugin is named ${name}; take another name`]);
  const files = pins.read(name);
  toPlugin(files, limits, name);
  // The text of the manifest itself: the parsed one has defaults filled in, which were never written.
  return { tools: (parseJson(files[MANIFEST] as string) as { tools: ManifestTool[] }).tools, files };
}

/** Throws ToolError for calls that wait for each other or name others. */
function orderOf(calls: readonly ComposedCall[]): string[] {
  const own: ComposedCall = { id: INPUT, tool: '', input: {} };
  const all = [own, ...calls].map(({ dependsOn = [], ...it }) => ({ ...it, dependsOn: [...dependsOn] }));
  return planBatch(all, { followsOf: () => [], canonical: (tool) => tool }).levels.flat();
}

function toolOf(
  it: Composition,
  module: string,
  { name, version, toolset }: { name: string; version: number; toolset: Toolset },
) {
  const calls = [...new Set('calls' in it ? it.calls.map(({ tool }) => tool) : it.tools)];
  const required = Object.entries(it.inputs).flatMap(([key, { default: usual }]) => (usual === undefined ? [key] : []));
  return {
    name: `run@${version}`,
    title: name.replaceAll('_', ' '),
    description: it.description,
    tier: tierOf(calls, toolset),
    calls,
    module,
    export: 'run',
    input: { type: 'object', properties: it.inputs, required },
    output: { type: 'object', properties: { value: {} } satisfies Record<string, JsonSchema> },
    examples: it.examples.map(({ input, output = {} }) => ({ input, output })),
  };
}

/** The highest tier of the tools. Throws PinError for a tool that there is not. */
function tierOf(names: readonly string[], toolset: Toolset): Tier {
  const tiers = names.map((name) => {
    const found = toolset.get(name);
    if (!found) throw new PinError([`there is no tool ${name}`]);
    if (runsBy(found.tool, 'isolates'))
      throw new PinError([`${name} runs a program itself; a composed tool can not call it`]);
    return TIERS.indexOf(found.tool.tier);
  });
  return TIERS[Math.max(0, ...tiers)] as Tier;
}
