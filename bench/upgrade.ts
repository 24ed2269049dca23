/** Calls at a fixed rate during upgrades of the daemon: `node bench/upgrade.ts [--rate 500] [--upgrades 5] [--clients 10] [--calls-per-edit 4]`. */
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { runCli } from '../test/support/cli.ts';
import { startDaemon } from '../test/support/daemon.ts';
import { loadDuringUpgrades } from '../test/support/upgrade-load.ts';
import { quantile } from './measure.ts';

const { values } = parseArgs({
  options: {
    rate: { type: 'string', default: '500' },
    upgrades: { type: 'string', default: '5' },
    clients: { type: 'string', default: '10' },
    'calls-per-edit': { type: 'string', default: '4' },
    'resume-ms': { type: 'string', default: '60000' },
  },
});
await using daemon = await startDaemon();
try {
  const { latencies, failed, upgrades, ...counts } = await loadDuringUpgrades(daemon, {
    callsPerSecond: Number(values.rate),
    upgrades: Number(values.upgrades),
    clients: Number(values.clients),
    callsPerEdit: Number(values['calls-per-edit']),
    resumeMs: Number(values['resume-ms']),
    betweenMs: 3000,
  });
  const ms = (share: number) => Math.round(quantile([...latencies], share));
  console.log({
    ...counts,
    failed: failed.length,
    reasons: [...new Set(failed)].slice(0, 5),
    p50Ms: ms(0.5),
    p99Ms: ms(0.99),
    maxMs: Math.round(latencies.at(-1) ?? 0),
    upgradesMs: upgrades.map(Math.round),
    loadOfTheMachine: loadavg()[0]?.toFixed(1),
  });
} finally {
  // The daemon that was started has handed over to others.
  await runCli(daemon, ['stop', '--no-autostart']);
}
