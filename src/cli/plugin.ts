/** `ringfence plugin check|add|list|remove`: works on the state directory without a daemon; a running daemon notices changes at once. */
import { defaultLimits as limits } from '../base/limits.ts';
import { CAPABILITIES, toolsOfCapabilities } from '../services/plugins/capabilities.ts';
import { problemsOf } from '../services/plugins/examine.ts';
import { type Plugin, PluginError, readPlugin } from '../services/plugins/package.ts';
import { pinnedPlugins, readPin } from '../services/plugins/pinned-plugins.ts';
import { toolNameOf } from '../services/plugins/toolset.ts';
import { builtinToolset } from '../tools/registry.ts';
import { CliError, EXIT, harmless, print, printJson, say } from './output.ts';
import { assertKnownState } from './state/known-state.ts';

interface PluginFlags {
  readonly json?: boolean;
}

/** Checks whether a folder holds a valid plugin, and shows what it asks for. Returns the exit code. */
export async function pluginCheck(folder: string, { json }: PluginFlags): Promise<number> {
  return orRefused(async () => {
    const plugin = await examined(folder);
    if (json) printJson(toShown(plugin));
    else show(plugin);
    return EXIT.OK;
  });
}

/** Copies a plugin into the state directory, replacing one with the same name. Returns the exit code. */
export async function pluginAdd(
  folder: string,
  { json, sha256 }: PluginFlags & { sha256?: string },
  { stateDir, nowMs }: { stateDir: string; nowMs: number },
): Promise<number> {
  return orRefused(async () => {
    const plugin = await examined(folder);
    if (sha256 !== undefined && sha256.replace(/^sha256:/, '') !== plugin.sha256)
      throw new PluginError([
        `${folder} has sha256:${plugin.sha256}, not the hash given as --sha256; check the plugin again before you add it`,
      ]);
    const taken = plugin.manifest.tools
      .map((it) => toolNameOf(plugin.manifest, it))
      .find((it) => builtinToolset().has(it));
    if (taken !== undefined) throw new PluginError([`the tool name ${taken} is taken by a built-in tool`]);
    assertKnownState(stateDir);
    pinnedPlugins(stateDir, limits).add(plugin.manifest.name, plugin.files, nowMs);
    if (json) printJson(toShown(plugin));
    else {
      show(plugin);
      print(`added a copy; if you change ${folder}, add it again`);
    }
    return EXIT.OK;
  });
}

/** Lists the pinned plugins. Returns the exit code: 1 if one of them is refused. */
export async function pluginList({ json }: PluginFlags, stateDir: string): Promise<number> {
  assertKnownState(stateDir);
  const pins = pinnedPlugins(stateDir, limits);
  const rows = pins.names().map((name) => {
    try {
      return toShown(readPin(pins, name, limits));
    } catch (error) {
      if (!(error instanceof PluginError)) throw error;
      return { name, problem: error.message };
    }
  });
  if (json) printJson(rows);
  else if (rows.length === 0) say('no plugins were added; add one with: ringfence plugin add <folder>');
  else
    for (const row of rows)
      if ('problem' in row) print(harmless(`${row.name}  off: ${row.problem}`));
      else
        print(
          `${row.name} ${row.version}  sha256:${row.sha256.slice(0, 12)}  ${row.tools.map((it) => it.name).join(', ')}`,
        );
  return rows.some((it) => 'problem' in it) ? EXIT.FAILED : EXIT.OK;
}

export async function pluginRemove(name: string, { json }: PluginFlags, stateDir: string): Promise<number> {
  assertKnownState(stateDir);
  const pins = pinnedPlugins(stateDir, limits);
  if (pins.remove(name)) {
    if (json) printJson({ removed: name });
    return EXIT.OK;
  }
  const names = pins.names();
  throw new CliError(
    EXIT.FAILED,
    `no plugin is named ${harmless(name)}${names.length > 0 ? `; the plugins are: ${names.join(', ')}` : ''}`,
  );
}

/** Reads and examines a plugin. Throws PluginError. */
async function examined(folder: string): Promise<Plugin> {
  const plugin = readPlugin(folder, limits);
  const problems = await problemsOf(plugin);
  if (problems.length > 0) throw new PluginError(problems);
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

async function orRefused(action: () => Promise<number>): Promise<number> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof PluginError)) throw error;
    say(`not valid:\n${harmless(error.message)}`);
    return EXIT.USAGE;
  }
}
