/** Verbs for the daemon's settings and tokens; their code is loaded on demand. */
import type { Command } from 'commander';
import { collect, type Verbs } from './verbs.ts';

/** Adds `init`, `config path|check|show`, `state du`, `backup`, `restore`, `secret set|list|remove` and `token rotate`. */
export function addSettingsVerbs(verbs: Verbs): void {
  const add = (parent: Command, name: string, description: string) => verbs.addBeside(name, description, parent);

  add(verbs.program, 'init', 'inspect this folder and propose a workspace, policy and toolchains for it')
    .option('--print', 'print the changes without writing them')
    .option('--yes', 'write the changes without asking')
    .action(verbs.ending(async (flags) => (await import('../init/init.ts')).init(flags, verbs.callerIn(flags))));

  const config = verbs.addGroup('config', 'find, check and show the configuration');
  const load = () => import('../config.ts');
  add(config, 'path', 'print the path of config.yaml, even if the file does not exist').action(
    verbs.ending(async (flags) => (await load()).configPath(flags, verbs.caller(flags))),
  );
  add(config, 'check [file]', 'check that the configuration is valid; exit code 0 or 2').action(
    verbs.ending(async (file, flags) => (await load()).configCheck(file, flags, verbs.callerIn(flags))),
  );
  add(config, 'show', 'show the settings of a daemon started here, and where each value comes from').action(
    verbs.ending(async (flags) => (await load()).configShow(flags, verbs.callerIn(flags))),
  );

  const state = verbs.addGroup('state', 'inspect the state directory');
  add(state, 'du', 'show what takes how much room in the state directory').action(
    verbs.ending(async (flags) => (await import('../state/disk-use.ts')).stateDu(flags, verbs.caller(flags))),
  );

  const loadBackup = () => import('../state/backup.ts');
  add(verbs.program, 'backup <file>', 'write the state directory to a new file; a daemon may run meanwhile').action(
    verbs.ending(async (file, flags) => (await loadBackup()).backup(file, flags, verbs.callerIn(flags))),
  );
  add(verbs.program, 'restore <file>', 'replace the state directory by a backup; the old one is kept beside it').action(
    verbs.ending(async (file, flags) => (await loadBackup()).restore(file, flags, verbs.callerIn(flags))),
  );

  const secret = verbs.addGroup('secret', 'store, list and remove the secrets that requests of connectors need');
  const loadSecret = () => import('../state/secret.ts');
  add(secret, 'set <name>', 'store a secret from standard input, or typed without being shown')
    .option('--host <host[:port]>', 'send the secret to this host only; repeatable', collect)
    .action(verbs.ending(async (name, flags) => (await loadSecret()).secretSet(name, flags, verbs.caller(flags))));
  add(secret, 'list', 'list the names of secrets, where they are, and the hosts they are sent to').action(
    verbs.ending(async (flags) => (await loadSecret()).secretList(flags, verbs.caller(flags))),
  );
  add(secret, 'remove <name>', 'remove a secret from the state directory').action(
    verbs.ending(async (name, flags) => (await loadSecret()).secretRemove(name, flags, verbs.caller(flags))),
  );

  const token = verbs.addGroup('token', 'replace the tokens with which operators, WebSocket and HTTP clients sign in');
  add(
    token,
    'rotate [name...]',
    'replace the tokens of operator, agent, metrics or principals (default: all) and end their sessions',
  ).action(
    verbs.ending(async (names, flags) =>
      (await import('../token.ts')).tokenRotate(names, flags, verbs.caller({ ...flags, autostart: false })),
    ),
  );
}
