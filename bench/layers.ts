// What does each layer around a command cost? `true` bare, in bare bubblewrap, and with each layer of ours added; all take turns in
// one run. Writes docs/benchmarks.svg and a table below bench/results. `--small` for the tests, which writes nothing.
import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { Hosts } from '../src/hosts/hosts.ts';
import { defaultLimits } from '../src/limits.ts';
import { silentLog, systemPowers } from '../src/powers.ts';
import { hostProgram, runtime, version } from '../src/runtime.ts';
import { runCommand } from '../src/sandbox/command.ts';
import { NO_MASKS } from '../src/sandbox/masks.ts';
import { toBashArgs } from '../src/sandbox/prologue.ts';
import { BARE_ENVIRONMENT, createSandbox } from '../src/sandbox/sandbox.ts';
import { Watchdog } from '../src/sandbox/watchdog.ts';
import { dataOf, startDaemon, temporaryDir } from '../test/support/daemon.ts';
import { toSvg } from './bars.ts';
import { commandFloor } from './command-floor.ts';

const small = process.argv.includes('--small');
const turns = small ? 4 : 100;

const limits = defaultLimits;
const powers = systemPowers(silentLog);
const [workspace, stateDir] = [temporaryDir('ws'), temporaryDir('state')];
const machine = { arch: process.arch, platform: process.platform, version };
const sandbox = await createSandbox({ runtime, stateDir, workspaces: [workspace], limits, ...machine }, powers);
const { filter, ...parts } = sandbox.commandSandbox(workspace);
const filterFile = join(stateDir, 'filter');
writeFileSync(filterFile, filter);
const rlimits = { addressFactor: limits.commandAddressFactor, threadsPerProcess: limits.commandThreadsMax };
const bounds = { ...limits.commandMax, outputBytes: limits.commandOutputBytes };
const environment = BARE_ENVIRONMENT as Record<string, string>;
const setup = { ...parts, filterFile, environment, limits, rlimits, watchdog: new Watchdog(limits, powers) };
const request = { command: 'true', cwd: workspace, env: {}, workspace, masks: NO_MASKS, bounds };
const signal = new AbortController().signal;

/** The sandbox of our commands around a program, with nobody who watches it. */
function inSandbox(program: readonly string[]): Promise<void> {
  const fd = openSync(filterFile, 'r');
  const args = [...parts.args, '--chdir', workspace, '--', ...program];
  const child = spawn(parts.bwrap, args, { stdio: ['ignore', 'pipe', 'pipe', fd], env: environment });
  closeSync(fd);
  for (const it of [child.stdout, child.stderr]) it?.resume();
  return new Promise((resolve, reject) => {
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`exit code ${code}`))));
  });
}

await using daemon = await startDaemon();
await using client = await daemon.connect();
await using hosts = new Hosts({ sandbox, program: hostProgram, limits }, powers);
const view = { key: '', rules: [], home: '' };
const input = { command: 'true', cwd: '.', env: {}, timeout: 20_000 };
const floor = commandFloor(workspace);

const subjects: Record<string, () => Promise<unknown>> = {
  'bare spawn': floor.bare,
  'bare bubblewrap, the same mounts': floor.bubblewrap,
  '+ seccomp': () => inSandbox(['/bin/true']),
  '+ bash with rlimits': () => inSandbox(['/bin/bash', ...toBashArgs({ ...request, rlimits })]),
  '+ watchdog, output, ends': () => runCommand({ ...request, signal }, setup, powers),
  '+ its host: frames, thread': () =>
    hosts.run({ tier: 'execute', workspace, view }, { tool: 'terminal_execute', input, bounds }, { signal }),
  '+ gateway: policy, record, log': () => dataOf(client.call('terminal_execute', { command: 'true' })),
};

const took = new Map(Object.keys(subjects).map((name) => [name, [] as number[]]));
for (let turn = -2; turn < turns; turn++) {
  for (const [name, run] of Object.entries(subjects)) {
    const from = performance.now();
    await run();
    if (turn >= 0) took.get(name)?.push(performance.now() - from);
  }
}

const rows = [...took].map(([name, all]) => ({
  name,
  p50Ms: all.sort((a, b) => a - b)[Math.floor(all.length / 2)] as number,
}));
const bubblewrap = rows[1]?.p50Ms ?? Number.NaN;
const table = [
  '| layer | p50 | / bare bubblewrap |',
  '|---|---|---|',
  ...rows.map((it) => `| ${it.name} | ${it.p50Ms.toFixed(2)} ms | ${(it.p50Ms / bubblewrap).toFixed(2)} |`),
].join('\n');
console.log(
  `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, level ${daemon.confinement.level}\n\n${table}`,
);
if (!small) {
  mkdirSync(new URL('results/', import.meta.url), { recursive: true });
  writeFileSync(
    new URL(`results/layers-${new Date().toISOString().replaceAll(':', '-')}.md`, import.meta.url),
    `${table}\n`,
  );
  const bars = rows.map(({ name, p50Ms }) => ({ name, value: p50Ms, label: `${p50Ms.toFixed(2)} ms` }));
  writeFileSync(
    new URL('../docs/benchmarks.svg', import.meta.url),
    toSvg('A command, layer by layer (p50 of `true`)', bars),
  );
}
for (const it of [workspace, stateDir]) rmSync(it, { recursive: true });
