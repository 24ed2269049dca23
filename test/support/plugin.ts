/** Writes plugins for tests, and adds them like `ringfence plugin add`. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { readPlugin } from '../../src/services/plugins/package.ts';
import { pinnedPlugins } from '../../src/services/plugins/pinned-plugins.ts';
import { type OpenDaemon, temporaryDir, until } from './daemon.ts';

const ANYTHING = { type: 'object', properties: {} };

export interface PluginText {
  readonly name?: string;
  readonly isolation?: 'isolate' | 'compartment';
  /** Overrides of the default tool, one for each tool. */
  readonly tools?: readonly object[];
  /** File contents by path. */
  readonly files?: Readonly<Record<string, string>>;
}

/** A manifest as JSON, which is also YAML. By default one tool `run` that accepts and returns anything. */
export function manifestOf({ name = 'probe', isolation = 'isolate', tools = [{}] }: PluginText): object {
  return {
    name,
    version: '1.0.0',
    title: 'A plugin of a test',
    isolation,
    tools: tools.map((it) => ({
      name: 'run',
      title: 'Runs',
      description: 'Runs.',
      tier: 'read_only',
      module: 'main.js',
      input: ANYTHING,
      output: { type: 'object', properties: { value: {} } },
      ...it,
    })),
  };
}

/** Writes the plugin to a new folder. */
export function writePlugin(plugin: PluginText): string {
  const folder = temporaryDir('plugin');
  const files = { 'ringfence.plugin.yaml': JSON.stringify(manifestOf(plugin)), ...plugin.files };
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

/** Adds a plugin to a daemon, and waits for its tools. */
export async function addPlugin(daemon: OpenDaemon, folder: string): Promise<void> {
  const plugin = readPlugin(folder, limits);
  pinnedPlugins(daemon.stateDir, limits).add(plugin.manifest.name, plugin.files, Date.now());
  await using operator = await daemon.connect({ role: 'operator' });
  await until(async () => {
    const { plugins } = (await operator.request('status', {})) as { plugins: { sha256?: string; problem?: string }[] };
    return plugins.some((it) => it.sha256 === plugin.sha256 || it.problem !== undefined);
  });
}
