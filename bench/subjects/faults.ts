import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import type { Client } from '../../src/client/client.ts';
import { AuditLog } from '../../src/store/audit/log.ts';
import { dataOf, startDaemon, temporaryDir } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';
import { auditEntry } from '../floors/audit-entry.ts';
import { type Taken, together } from '../measure.ts';

const timed = async (run: () => Promise<unknown>): Promise<number> => {
  const from = performance.now();
  await run();
  return performance.now() - from;
};
/** Calls until it succeeds: a call that had begun when its host died is not retried automatically. */
async function untilWell(call: () => Promise<unknown>): Promise<void> {
  for (let left = 100; ; left--) {
    try {
      return void (await call());
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}
const read = (client: Client) => dataOf(client.call('file_read', { path: 'empty' }, { cache: false }));

/** Time from the SIGKILL of a tier's host to the tier's next success, and the time of a call to a live host. */
async function killedHosts(bench: Context): Promise<void> {
  const client = await bench.client('.');
  await using operator = await (await bench.daemon()).connect({ role: 'operator' });
  writeFileSync(join(client.folder, 'empty'), '');
  type Status = { hosts: { tier: string; pid: number; workspace: string }[] };
  const pids = async (tier: string) =>
    ((await operator.request('status', {})) as Status).hosts
      .filter((it) => it.tier === tier && it.workspace === client.folder.replace(/\/\.?$/, ''))
      .map((it) => it.pid);
  const calls: Record<string, () => Promise<unknown>> = {
    read_only: () => read(client),
    write: () => dataOf(client.call('file_write', { path: 'w', content: '' })),
    execute: () => dataOf(client.call('terminal_execute', { command: 'true' })),
  };
  for (const [tier, call] of Object.entries(calls)) {
    const [live, killed]: [number[][], number[][]] = [[], []];
    for (let round = 0; round < bench.size(1, 15); round++) {
      await call();
      live.push([await timed(call)]);
      const found = await pids(tier);
      if (found.length === 0) throw new Error(`no ${tier} host is there to be killed`);
      killed.push([
        await timed(() => {
          for (const pid of found) process.kill(pid, 'SIGKILL');
          return untilWell(call);
        }),
      ]);
    }
    const [before, after] = [
      `${tier}: an answer of a live host`,
      `${tier}: SIGKILL of its host, to the next good answer`,
    ];
    bench.times({ [before]: live, [after]: killed }, { over: { [after]: before } });
  }
}

/** Time from spawning a daemon to the first answer of a tool. */
async function starts(bench: Context): Promise<void> {
  const started = async (stateDir: string, workspace: string): Promise<number> => {
    const from = performance.now();
    await using daemon = await startDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    await read(client);
    return performance.now() - from;
  };
  const [cold, warm, behind]: [number[][], number[][], number[][]] = [[], [], []];
  for (let round = 0; round < bench.size(1, 8); round++) {
    const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
    try {
      writeFileSync(join(workspace, 'empty'), '');
      cold.push([await started(stateDir, workspace)]);
      warm.push([await started(stateDir, workspace)]);
      fillAudit(stateDir, bench.size(500, 10_000));
      behind.push([await started(stateDir, workspace)]);
    } finally {
      for (const it of [stateDir, workspace]) rmSync(it, { recursive: true });
    }
  }
  const name = 'start, a state it had before, to the first answer';
  bench.times(
    {
      'start, nothing there yet, to the first answer': cold,
      [name]: warm,
      [`start, ${bench.size(500, 10_000)} entries of a killed daemon, to the first answer`]: behind,
    },
    { over: name, goals: { [name]: { most: 400 } } },
  );
}

/** Adds calls that were running when a daemon was killed: intents without outcomes. */
function fillAudit(stateDir: string, entries: number): void {
  using log = new AuditLog(join(stateDir, 'audit.db'), defaultLimits, systemPowers(), { redact: (it) => it });
  for (let i = 0; i < entries; i++) {
    log.append({ ...auditEntry(), kind: 'intent' });
    if (i % 500 === 499) log.flush();
  }
}

/** Time of a policy reload under load, and of the calls meanwhile. */
async function reloads(bench: Context): Promise<void> {
  const daemon = await bench.daemon();
  const client = await bench.client('.');
  await using operator = await daemon.connect({ role: 'operator' });
  writeFileSync(join(client.folder, 'empty'), '');
  const file = join(daemon.stateDir, 'policy.yaml');
  const policy = readFileSync(file, 'utf8');
  await read(client);
  const [reload, before, meanwhile]: [number[][], number[][], number[][]] = [[], [], []];
  for (let round = 0; round < bench.size(1, 15); round++) {
    const load = together(() => read(client), { inFlight: 8, times: bench.size(20, 400) });
    before.push([await timed(load)]);
    const running = timed(load);
    const rule = `  - { id: r${round}, match: { write: "no-${round}/**" }, decision: deny, reason: of the bench }`;
    writeFileSync(file, `${policy}\n${rule}\n`);
    reload.push([await timed(() => operator.request('policy.reload', {}))]);
    meanwhile.push([await running]);
  }
  const taken: Record<string, Taken> = {
    'policy reload under load, to its answer': reload,
    'a load of reads, 8 in flight': before,
    'the same load with a reload in it': meanwhile,
  };
  bench.times(taken, { over: { 'the same load with a reload in it': 'a load of reads, 8 in flight' } });
}

export default defineBench({
  title: 'Faults',
  question: 'How long until work goes on after a kill, a start, a policy reload?',
  async run(bench) {
    await killedHosts(bench);
    await starts(bench);
    await reloads(bench);
  },
});
