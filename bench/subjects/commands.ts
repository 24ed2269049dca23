import { spawn } from 'node:child_process';
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits } from '../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../src/base/powers.ts';
import { hostProgram, version } from '../../src/base/runtime.ts';
import { Hosts } from '../../src/hosts/hosts.ts';
import { runCommand } from '../../src/sandbox/command/command.ts';
import { DiskWatch } from '../../src/sandbox/command/disk-watch.ts';
import { toBashArgs } from '../../src/sandbox/command/prologue.ts';
import { BARE_ENVIRONMENT } from '../../src/sandbox/launcher.ts';
import { NO_MASKS } from '../../src/sandbox/masks.ts';
import { createSandbox } from '../../src/sandbox/sandbox.ts';
import { Watchdog } from '../../src/sandbox/watchdog.ts';
import { dataOf, startDaemon, temporaryDir } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { builtProgram, builtRuntime } from '../built.ts';
import { commandFloor } from '../floors/command.ts';
import { inTurns, median, type Subject } from '../measure.ts';

const BUBBLEWRAP = 'bare bubblewrap, the same mounts';
const WHOLE = '+ gateway: policy, record, log';

export default defineBench({
  title: 'A command, layer by layer',
  question: 'What does each layer around a command cost, from a bare spawn of `true` to a call of the daemon?',
  async run(bench) {
    const limits = defaultLimits;
    const powers = systemPowers(silentLog);
    const [workspace, stateDir] = [temporaryDir('ws'), temporaryDir('state')];
    const machine = { arch: process.arch, platform: process.platform, version };
    const sandbox = await createSandbox(
      { runtime: builtRuntime, stateDir, workspaces: [workspace], limits, ...machine },
      powers,
    );
    const {
      filter,
      ownSocketsFilter: _,
      homesFolder: __,
      openFiles,
      ...parts
    } = sandbox.commandSandbox(workspace, { isDirect: true });
    const filterFile = join(stateDir, 'filter');
    writeFileSync(filterFile, filter);
    const rlimits = { openFiles, threadsPerProcess: limits.commandThreadsMax };
    const bounds = { ...limits.commandMax, outputBytes: limits.commandOutputBytes };
    const environment = BARE_ENVIRONMENT as Record<string, string>;
    const setup = {
      ...parts,
      filterFile,
      ownSocketsFilterFile: filterFile,
      environment,
      limits,
      rlimits,
      watchdog: new Watchdog(limits, powers),
      disks: new DiskWatch(limits, powers),
    };
    const request = { command: 'true', cwd: workspace, env: {}, workspace, masks: NO_MASKS, bounds };
    const signal = new AbortController().signal;

    /** Runs a program in the sandbox of our commands, without supervision. */
    const inSandbox = (program: readonly string[]): Promise<void> => {
      const fd = openSync(filterFile, 'r');
      const args = [...parts.args, '--chdir', workspace, '--', ...program];
      const child = spawn(parts.bwrap, args, { stdio: ['ignore', 'pipe', 'pipe', fd], env: environment });
      closeSync(fd);
      for (const it of [child.stdout, child.stderr]) it?.resume();
      return new Promise((resolve, reject) => {
        child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`exit code ${code}`))));
      });
    };

    const client = await bench.client('.');
    // Another daemon takes a second to start, too long for the small form.
    await using ungrouped = bench.small ? null : await startDaemon({ config: { cgroup: 'none' } });
    await using ungroupedClient = (await ungrouped?.connect()) ?? null;
    await using hosts = new Hosts({ sandbox, program: builtProgram(hostProgram), limits }, powers);
    const view = { key: '', rules: [], home: '' };
    const input = { command: 'true', cwd: '.', env: {}, timeout: 20_000 };
    const floor = commandFloor(workspace);

    const subjects: Record<string, Subject> = {
      'bare spawn': floor.bare,
      [BUBBLEWRAP]: floor.bubblewrap,
      '+ seccomp': () => inSandbox(['/bin/true']),
      '+ bash with rlimits': () => inSandbox(['/bin/bash', ...toBashArgs({ ...request, rlimits })]),
      '+ watchdog, output, ends': () => runCommand({ ...request, signal }, setup, powers),
      '+ its host: frames, thread': () =>
        hosts.run({ tier: 'execute', workspace, view }, { tool: 'terminal_execute', input, bounds }, { signal }),
      [WHOLE]: () => dataOf(client.call('terminal_execute', { command: 'true' })),
      ...(ungroupedClient && {
        'the daemon without control groups': () =>
          dataOf(ungroupedClient.call('terminal_execute', { command: 'true' })),
      }),
    };

    const taken = await inTurns(subjects, {
      rounds: bench.size(3, 20),
      times: bench.size(1, 5),
      warmRounds: bench.size(1, 40),
    });
    const goals = { [WHOLE]: { ratio: 1.35 } };
    bench.times(taken, { over: BUBBLEWRAP, goals });
    const [bare, ours] = [`${BUBBLEWRAP}, after a pause`, 'terminal_execute, after a pause'];
    const paused = { [bare]: floor.bubblewrap, [ours]: subjects[WHOLE] as Subject };
    const turns = { rounds: bench.size(2, 20), times: bench.size(1, 5), pauseMs: 30 };
    bench.times(await inTurns(paused, turns), { over: bare, goals: { [ours]: { ratio: 1.35 } } });
    bench.say(
      'Inside, both see the same. Bare bubblewrap, and the rows without a host, mount what is shown of /etc one by one; an execute host has put that together once.',
    );
    const bars = Object.entries(taken).map(([name, it]) => ({ name, value: median(it.flat()) }));
    bench.draw({
      name: 'commands',
      title: 'A command, layer by layer (median of `true`)',
      kind: 'bars',
      bars: bars.map((it) => ({ ...it, label: `${it.value.toFixed(2)} ms` })),
    });
    for (const it of [workspace, stateDir]) rmSync(it, { recursive: true });
  },
});
