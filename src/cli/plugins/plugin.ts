/** `ringfence plugin check|add|list|remove`: works on the state directory without a daemon; a running daemon notices changes at once. */
import { defaultLimits as limits } from '../../base/limits.ts';
import { PinError } from '../../services/pinned/pin-error.ts';
import { CAPABILITIES, toolsOfCapabilities } from '../../services/plugins/capabilities.ts';
import { problemsOf } from '../../services/plugins/examine.ts';
import { type Plugin, readPlugin } from '../../services/plugins/package.ts';
import { pinnedPlugins, readPin } from '../../services/plugins/pinned-plugins.ts';
import { toolNameOf } from '../../services/plugins/toolset.ts';
import { assertKnownState } from '../../store/state-schema.ts';
import { builtinToolset } from '../../tools/registry.ts';
import { EXIT, harmless, print, printJson } from '../output.ts';
import { assertHash, listPins, removePin } from '../state/pins.ts';

interface PluginFlags {
  readonly json?: boolean;
}

/** Checks whether a folder holds a valid plugin, and shows what it asks for. Returns the exit code. */
export async function pluginCheck(folder: string, { json }: PluginFlags): Promise<number> {
  const plugin = await examined(folder);
  if (json) printJson(toShown(plugin));
  else show(plugin);
  return EXIT.OK;
}

/** Copies a plugin into the state directory, replacing one with the same name. Returns the exit code. */
export async function pluginAdd(
  folder: string,
  { json, sha256 }: PluginFlags & { sha256?: string },
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
export async function pluginList({ json }: PluginFlags, stateDir: string): Promise<number> {
  assertKnownState(stateDir);
  const pins = pinnedPlugins(stateDir, limits);
  return listPins(pins, json, {
    read: (name) => toShown(readPin(pins, name, limits)),
    heading: ({ name, version }) => `${name} ${version}`,
    none: 'no plugins were added; add one with: ringfence plugin add <folder>',
  });
}

export async function pluginRemove(name: string, { json }: PluginFlags, stateDir: string): Promise<number> {
  assertKnownState(stateDir);
  return removePin(pinnedPlugins(stateDir, limits), 'plugin', name, json);
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
    calls: toolsOfCapabilities(tool.capabilities),
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
  for (const { name, tier, capabilities, effects } of tools) {
    print(`\n${name}  ${tier}`);
    for (const it of capabilities) print(`  may call, as ${it}: ${CAPABILITIES[it].tools.join(', ')}`);
    if (capabilities.length === 0) print('  may call no tools');
    for (const { kind, target } of effects) print(harmless(`  declares that it may ${kind} ${target}`));
  }
}
