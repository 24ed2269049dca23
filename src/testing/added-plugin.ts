/** A plugin under test. */
import { defaultLimits as limits } from '../base/limits.ts';
import { systemPowers } from '../base/powers.ts';
import { PinError } from '../services/pinned/pin-error.ts';
import { problemsOf } from '../services/plugins/examine.ts';
import { readPlugin } from '../services/plugins/package.ts';
import { pinnedPlugins } from '../services/plugins/pinned-plugins.ts';
import { toToolset } from '../services/plugins/toolset.ts';
import { toolsOf } from '../tools/registry.ts';
import { Added, orClosed, untilAdded } from './added.ts';
import { startTestDaemon, type TestDaemonOptions } from './daemon.ts';

/** Starts a daemon with the plugin of a folder. Rejects with every reason why it would not be taken. */
export async function testPlugin(folder: string, options: TestDaemonOptions = {}): Promise<Added> {
  const plugin = readPlugin(folder, limits);
  const problems = await problemsOf(plugin);
  if (problems.length > 0) throw new PinError(problems);
  const daemon = await startTestDaemon(options);
  return orClosed(daemon, async () => {
    const { name } = plugin.manifest;
    pinnedPlugins(daemon.stateDir, limits).add(name, plugin.files, systemPowers().now());
    await untilAdded(daemon, { kind: 'plugins', name });
    return new Added({ name, tools: toolsOf(toToolset(plugin)), daemon });
  });
}
