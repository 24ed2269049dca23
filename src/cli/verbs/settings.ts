/** Verbs for the daemon's settings and tokens; their code is loaded on demand. */
import type { Command } from 'commander';
import { collect, type Verbs } from './verbs.ts';

/** Adds `init`, `config path|check|show`, `state du`, `backup`, `restore`, `secret set|list|remove` and `token rotate`. */
export function addSettingsVerbs(verbs: Verbs): void {
  const add = (parent: Command, name: string, description: string) => verbs.addBeside(name, description, parent);

  add(verbs.program, 'init', 'inspect this folder and propose a workspace, policy and toolchains for it')
    .option('--print', 'print the changes without writing them')
    .option('--yes', 'write the changes without asking')
    .action(verbs.here(async () => (await import('../init/init.ts')).init));

  const config = verbs.addGroup('config', 'find, check and show the configuration');
  const load = () => import('../config.ts');
  add(config, 'path', 'print the path of config.yaml, even if the file does not exist').action(
    verbs.anywhere(async () => (await load()).configPath),
  );
  add(config, 'check [file]', 'check that the configuration is valid; exit code 0 or 2').action(
    verbs.here(async () => (await load()).configCheck),
  );
  add(config, 'show', 'show the settings of a daemon started here, and where each value comes from').action(
    verbs.here(async () => (await load()).configShow),
  );

  const state = verbs.addGroup('state', 'inspect the state directory');
  add(state, 'du', 'show what takes how much room in the state directory').action(
    verbs.anywhere(async () => (await import('../state/disk-use.ts')).stateDu),
  );

  const loadBackup = () => import('../state/backup.ts');
  add(verbs.program, 'backup <file>', 'write the state directory to a new file; a daemon may run meanwhile').action(
    verbs.here(async () => (await loadBackup()).backup),
  );
  add(verbs.program, 'restore <file>', 'replace the state directory by a backup; the old one is kept beside it').action(
    verbs.here(async () => (await loadBackup()).restore),
  );

  const secret = verbs.addGroup('secret', 'store, list and remove the secrets that requests of connectors need');
  const loadSecret = () => import('../state/secret.ts');
  add(secret, 'set <name>', 'store a secret from standard input, or typed without being shown')
    .option('--host <host[:port]>', 'send the secret to this host only; repeatable', collect)
    .action(verbs.anywhere(async () => (await loadSecret()).secretSet));
  add(secret, 'list', 'list the names of secrets, where they are, and the hosts they are sent to').action(
    verbs.anywhere(async () => (await loadSecret()).secretList),
  );
  add(secret, 'remove <name>', 'remove a secret from the state directory').action(
    verbs.anywhere(async () => (await loadSecret()).secretRemove),
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
