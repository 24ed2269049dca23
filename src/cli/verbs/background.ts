/** Verbs of the daemon as a service of the system; their code is loaded on demand. */
import { Option } from 'commander';
import type { Service, ServiceFlags } from '../service/installed.ts';
import type { Verbs } from './verbs.ts';

export function addServiceVerbs(verbs: Verbs): void {
  const service = verbs.addGroup('service', 'run the daemon as a service of systemd, for yourself or for the machine');
  const load = () => import('../service/installed.ts');
  type Loaded = Awaited<ReturnType<typeof load>>;
  const add = (
    name: string,
    description: string,
    action: (loaded: Loaded) => (flags: ServiceFlags, service: Service) => Promise<number>,
  ) =>
    verbs
      .addOffline(name, description, service)
      .addOption(new Option('--user', 'a service of your own, without root (the default)').conflicts('system'))
      .option('--system', 'a service of the machine that runs as you: ringfence@USER')
      .action(
        verbs.ending(async (flags: ServiceFlags) => {
          const loaded = await load();
          return await action(loaded)(flags, loaded.serviceOf(flags, verbs.caller({ autostart: false })));
        }),
      );

  add(
    'install',
    'write and enable the units; with --now also start it and check its confinement',
    (it) => it.serviceInstall,
  )
    .option('--print', 'print the units without writing them')
    .option('--now', 'start it at once');
  add(
    'status',
    'show whether it runs, how it is confined, and its version; exit code 0 or 1',
    (it) => it.serviceStatus,
  );
  add('logs', 'show its newest log lines', (it) => it.serviceLogs).option('-f, --follow', 'keep printing');
  add('restart', 'replace the running daemon by a new one; no call is lost', (it) => it.serviceRestart)
    .option('--drain <time>', 'how long calls may take to end: 30s, 10m (the default), 1h')
    .option('--stop', 'end the daemon and its calls before, for a changed unit or environment');
  add('uninstall', 'stop it and remove its units', (it) => it.serviceUninstall).option(
    '--purge',
    'also remove the state directory: the record, undo data and tokens',
  );
}
