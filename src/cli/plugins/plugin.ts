/** `ringfence plugin check|add|list|remove`: works on the state directory without a daemon; a running daemon notices changes at once. `save|test` need one. */
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { defaultLimits as limits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import type { Client } from '../../client/client.ts';
import { PinError } from '../../services/pinned/pin-error.ts';
import { toolsOfCapabilities } from '../../services/plugins/capabilities.ts';
import { problemsOf } from '../../services/plugins/examine.ts';
import { type Plugin, readPlugin } from '../../services/plugins/package.ts';
import { pinnedPlugins, readPin } from '../../services/plugins/pinned-plugins.ts';
import { toolNameOf } from '../../services/plugins/toolset.ts';
import { assertKnownState } from '../../store/state-schema.ts';
import { builtinToolset } from '../../tools/registry.ts';
import { type CliCaller, connect, userDirsOf } from '../connect.ts';
import { EXIT, harmless, type JsonFlag, print, printJson } from '../output.ts';
import { assertHash, listPins, removePin } from '../state/pins.ts';

/** Checks whether a folder holds a valid plugin, and shows what it asks for. Returns the exit code. */
export async function pluginCheck(folder: string, { json }: JsonFlag): Promise<number> {
  const plugin = await examined(folder);
  if (json) printJson(toShown(plugin));
  else show(plugin);
  return EXIT.OK;
}

/** Copies a plugin into the state directory, replacing one with the same name. Returns the exit code. */
export async function pluginAdd(
  folder: string,
  { json, sha256 }: JsonFlag & { sha256?: string },
  { stateDir, nowMs }: { stateDir: string; nowMs: number },
): Promise<number> {
  const plugin = await examined(folder);
  assertHash(folder, plugin.sha256, sha256);
  const taken = plugin.manifest.tools
    .map((it) => toolNameOf(plugin.manifest, it))
    .find((it) => builtinToolset().has(it));
  if (taken !== undefined) throw new PinError([`the tool name ${taken} is taken by a built-in tool`]);
  assertKnownState(stateDir);
  pinnedPlugins(stateDir, limits).add(plugin.manifest.name, plugin.files, nowMs);
  if (json) printJson(toShown(plugin));
  else {
    show(plugin);
    print(`added a copy; if you change ${folder}, add it again`);
  }
  return EXIT.OK;
}

/** Lists the pinned plugins. Returns the exit code: 1 if one of them is refused. */
export async function pluginList({ json }: JsonFlag, stateDir: string): Promise<number> {
  assertKnownState(stateDir);
  const pins = pinnedPlugins(stateDir, limits);
  return listPins(pins, json, {
    read: (name) => toShown(readPin(pins, name, limits)),
    heading: ({ name, version }) => `${name} ${version}`,
    none: 'no plugins were added; add one with: ringfence plugin add <folder>',
  });
}

export async function pluginRemove(name: string, { json }: JsonFlag, stateDir: string): Promise<number> {
  assertKnownState(stateDir);
  return removePin(pinnedPlugins(stateDir, limits), 'plugin', name, json);
}

/** Pins a composed batch or program as a tool; its file is a batch file with `description` and `inputs`. Returns the exit code. */
export async function pluginSave(client: Client, file: string, name: string, { json }: JsonFlag): Promise<number> {
  const composed = parseJson(readFileSync(file, 'utf8'));
  const saved = (await client.request('plugins.save', { name, composed })) as { tool: string; version: string };
  if (json) printJson(saved);
  else print(`${saved.tool} is saved, version ${saved.version}; try its examples: ringfence plugin test ${name}`);
  return EXIT.OK;
}

/** Calls a plugin's tools with their examples, as an agent in the current folder would. Returns the exit code. */
export async function pluginTest(name: string, { json }: JsonFlag, caller: CliCaller): Promise<number> {
  const { manifest } = readPin(pinnedPlugins(userDirsOf(caller.flags, caller.env).stateDir, limits), name, limits);
  await using client = await connect(caller);
  const outcomes: { tool: string; example: number; problem?: string }[] = [];
  for (const declared of manifest.tools)
    for (const [at, example] of declared.examples.entries()) {
      const tool = toolNameOf(manifest, declared);
      const result = await client.call(tool, example.input);
      const given = result.success ? result.data : { error: result.error.code };
      const wanted = 'error' in example ? { error: example.error } : example.output;
      const fits = isMatch(given, wanted) && (result.success || 'error' in example);
      const why = result.success ? JSON.stringify(given).slice(0, 500) : result.error.message;
      outcomes.push({ tool, example: at + 1, ...(!fits && { problem: why }) });
    }
  if (json) printJson(outcomes);
  else
    for (const { tool, example, problem } of outcomes)
      print(harmless(`${tool}, example ${example}: ${problem === undefined ? 'right' : `gave ${problem}`}`));
  return outcomes.every((it) => it.problem === undefined) ? EXIT.OK : EXIT.FAILED;
}

/** Whether a value has all that an example shows of it. */
function isMatch(value: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(value, wanted);
  return isRecord(value) && Object.entries(wanted).every(([key, it]) => isMatch(value[key], it));
}

/** Reads and examines a plugin. Throws PinError. */
async function examined(folder: string): Promise<Plugin> {
  const plugin = readPlugin(folder, limits);
  const problems = await problemsOf(plugin);
  if (problems.length > 0) throw new PinError(problems);
  return plugin;
}

function toShown({ manifest, sha256 }: Plugin) {
  const { name, version, isolation } = manifest;
  const tools = manifest.tools.map((tool) => ({
    name: toolNameOf(manifest, tool),
    tier: tool.tier,
    capabilities: tool.capabilities,
    effects: tool.effects,
    calls: [...toolsOfCapabilities(tool.capabilities), ...tool.calls],
    limits: tool.limits,
  }));
  return { name, version, sha256, isolation, tools };
}

function show(plugin: Plugin): void {
  const { manifest } = plugin;
  const { tools, sha256, isolation } = toShown(plugin);
  print(harmless(`${manifest.name} ${manifest.version}: ${manifest.title}`));
  print(`sha256:${sha256}, ${Object.keys(plugin.files).length} files`);
  if (isolation === 'compartment')
    print(
      'its code shares a process with other plugins of the session (isolation: compartment); read the code before you add it',
    );
  for (const { name, tier, calls, effects } of tools) {
    print(`\n${name}  ${tier}`);
    print(harmless(`  may call: ${calls.join(', ') || 'no tools'}`));
    for (const { kind, target } of effects) print(harmless(`  declares that it may ${kind} ${target}`));
  }
}
