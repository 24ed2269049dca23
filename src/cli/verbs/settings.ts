/** Verbs for the daemon's settings and tokens; their code is loaded on demand. */
import type { Command } from 'commander';
import type { Verbs } from './verbs.ts';

/** Adds `init`, `config path|check|show` and `token rotate`. */
export function addSettingsVerbs(verbs: Verbs): void {
  const add = (parent: Command, name: string, description: string) =>
    verbs
      .addOffline(name, description, parent)
      .option('--socket <path>', "the daemon's socket")
      .option('--state <dir>', "the daemon's state directory");

  add(verbs.program, 'init', 'look at this folder, and propose its workspace, policy and toolchains')
    .option('--print', 'show what would be written, and write nothing')
    .option('--yes', 'write it unasked')
    .action(verbs.ending(async (flags) => (await import('../init/init.ts')).init(flags, verbs.callerIn(flags))));

  const config = verbs.addGroup('config', 'the configuration: where it is, whether it is right, what is in force');
  const load = () => import('../config.ts');
  add(config, 'path', 'print where config.yaml is, or would be').action(
    verbs.ending(async (flags) => (await load()).configPath(flags, verbs.caller(flags))),
  );
  add(config, 'check [file]', 'whether the daemon would take it; exit code 0 or 2').action(
    verbs.ending(async (file, flags) => (await load()).configCheck(file, flags, verbs.callerIn(flags))),
  );
  add(config, 'show', 'what a daemon started here would go by, and where each value comes from').action(
    verbs.ending(async (flags) => (await load()).configShow(flags, verbs.callerIn(flags))),
  );

  const token = verbs.addGroup('token', 'what WebSocket and HTTP clients, and operators, sign in with');
  add(
    token,
    'rotate [name...]',
    'make new tokens of operator, agent or principals (default: of all); ends their sessions',
  ).action(
    verbs.ending(async (names, flags) =>
      (await import('../token.ts')).tokenRotate(names, flags, verbs.caller({ ...flags, autostart: false })),
    ),
  );
}
