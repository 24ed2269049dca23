/** Verbs for plugins, and what the daemon reports of them; their code is loaded on demand. */
import { systemPowers } from '../../base/powers.ts';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import { addNewVerb } from '../verbs/skeletons.ts';
import type { CliCapability } from '../verbs/verbs.ts';

const STATE = ['--state <dir>', "the daemon's state directory"] as const;

/** The plugins in the answer to `status`. */
interface Plugins {
  readonly plugins?: readonly {
    readonly name: string;
    readonly version?: string;
    readonly tools: readonly string[];
    readonly problem?: string;
    readonly health?: string;
  }[];
}

export default {
  statusLines: ({ plugins = [] }: Plugins) =>
    plugins.map(({ name, version, tools, problem, health }) =>
      problem === undefined
        ? `plugin ${name} ${version}: ${tools.join(', ')}${health === undefined ? '' : `; health: ${health}`}`
        : `plugin ${name} is off: ${problem}`,
    ),
  addVerbs(verbs) {
    const plugin = verbs.addGroup('plugin', 'check, add, list and remove plugins, which bring more tools');
    const load = () => import('./plugin.ts');
    const stateOf = (flags: { state?: string }) => findUserDirs(flags, verbs.env).stateDir;
    verbs
      .addOffline('list', 'list the added plugins; exit code 1 if one is off', plugin, { isDefault: true })
      .option(...STATE)
      .action(verbs.ending(async (flags) => (await load()).pluginList(flags, stateOf(flags))));
    verbs
      .addOffline('check <folder>', 'check that a plugin is valid, and show what it asks for', plugin)
      .action(verbs.ending(async (folder, flags) => (await load()).pluginCheck(folder, flags)));
    verbs
      .addOffline('add <folder>', 'copy a plugin as it is now; later sessions have its tools', plugin)
      .option(...STATE)
      .option('--sha256 <hash>', 'refuse the plugin if its hash differs')
      .action(
        verbs.ending(async (folder, flags) =>
          (await load()).pluginAdd(folder, flags, { stateDir: stateOf(flags), nowMs: systemPowers().now() }),
        ),
      );
    verbs
      .addOffline('remove <name>', 'remove a plugin', plugin)
      .option(...STATE)
      .action(verbs.ending(async (name, flags) => (await load()).pluginRemove(name, flags, stateOf(flags))));
    verbs
      .add('save <file> <name>', 'save a batch file with inputs, or a program, as the tool NAME__run', plugin)
      .action(
        verbs.operating(async (client, file, name, flags) => (await load()).pluginSave(client, file, name, flags)),
      );
    verbs
      .add('test <name>', "call a plugin's tools here with their examples; exit code 0 or 1", plugin)
      .action(verbs.here(async () => (await load()).pluginTest));
    addNewVerb(verbs, plugin, 'plugin');
  },
} satisfies CliCapability;
