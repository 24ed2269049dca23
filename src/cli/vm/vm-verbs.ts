/** The verbs of the machine in which the daemon of a Mac runs; only the package `ringfence-client` has them. */
import type { Verbs } from '../verbs/verbs.ts';

export function addVmVerbs(verbs: Verbs): void {
  const vm = verbs.addGroup('vm', 'run the daemon in a Linux machine, on a Mac');
  const load = () => import('./vm.ts');
  const add = (name: string, description: string) => verbs.addOffline(name, description, vm);
  add('create <folder...>', 'make the machine, or give it these folders, in which agents may work, and this version')
    .option('--no-login', 'do not start it at each login')
    .option('--package <spec>', 'what npm installs in it (default: ringfence in this version)')
    .action(verbs.here(async () => (await load()).vmCreate));
  add('start', 'start the machine').action(verbs.ending(async (flags) => (await load()).vmStart(verbs.caller(flags))));
  add('stop', 'stop the machine').action(verbs.ending(async (flags) => (await load()).vmStop(verbs.caller(flags))));
  add('shell [command...]', 'open a shell in the machine, or run a command there')
    .passThroughOptions()
    .action(verbs.ending(async (words, flags) => (await load()).vmShell(words, verbs.caller(flags))));
  add('status', 'show whether the machine runs, its folders, and whether its socket is open').action(
    verbs.anywhere(async () => (await load()).vmStatus),
  );
  add('delete', "remove the machine, with the daemon's record and undo data in it").action(
    verbs.ending(async (flags) => (await load()).vmDelete(verbs.caller(flags))),
  );
}
