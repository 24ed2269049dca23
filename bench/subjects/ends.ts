import { readFileSync } from 'node:fs';
import { processesWith, type TestDaemon, until } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { quantile } from '../measure.ts';

const MARK = 'mark-of-the-bench';
const mark = `./${MARK} 60`;

interface Tree {
  readonly command: string;
  readonly processes: number;
}

const TREES: Record<string, Tree> = {
  'one process': { command: `exec ${mark}`, processes: 1 },
  'a session of its own (setsid)': { command: `setsid ${mark} & ${mark}`, processes: 2 },
  'a double fork': { command: `( (${mark} &) & ) ; ${mark}`, processes: 2 },
  'nohup in the background': { command: `nohup ${mark} >/dev/null 2>&1 & ${mark}`, processes: 2 },
  'a grandchild that holds stdout': { command: `(bash -c "${mark}; :" &) ; ${mark}`, processes: 2 },
};

/** Whether a process is gone or a zombie. */
function isGone(pid: number): boolean {
  try {
    return /^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true; // ENOENT or ESRCH: ended.
  }
}

function isMark(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(`./${MARK}\0`);
  } catch {
    return false; // ENOENT: ended meanwhile.
  }
}

/** Milliseconds from a requested end to the end of the last process, and to the answer. */
async function end(
  daemon: TestDaemon,
  { command, processes }: Tree,
  by: 'cancel' | 'disconnect',
): Promise<{ goneMs: number; answerMs: number }> {
  await using client = await daemon.connect();
  const running = client.call('terminal_execute', { command }, { callId: 'c' });
  const pidsNow = () => processesWith(MARK).filter((it) => !isGone(it) && isMark(it));
  await until(() => pidsNow().length === processes);
  const pids = pidsNow();
  const from = performance.now();
  let answerMs = Number.NaN;
  const answered = running.then(
    () => (answerMs = performance.now() - from),
    () => undefined, // The connection ended.
  );
  void (by === 'cancel' ? client.request('calls.cancel', { callId: 'c' }) : client[Symbol.asyncDispose]());
  while (!pids.every(isGone)) await new Promise((resolve) => setImmediate(resolve));
  const goneMs = performance.now() - from;
  await answered;
  return { goneMs, answerMs };
}

export default defineBench({
  title: 'The end of a command',
  question: 'How long does anything of a command live after its end was asked for?',
  async run(bench) {
    const daemon = await bench.daemon();
    const client = await bench.client('.');
    await client.call('terminal_execute', { command: `cp /bin/sleep ./${MARK}` });
    const trees = Object.entries(TREES).slice(0, bench.size(2, 5));
    const taken = new Map<string, number[]>();
    const keep = (name: string, ms: number) => taken.set(name, [...(taken.get(name) ?? []), ms]);
    for (let round = 0; round < bench.size(1, 30); round++)
      for (const [name, tree] of trees)
        for (const by of ['cancel', 'disconnect'] as const) {
          const { goneMs, answerMs } = await end(daemon, tree, by);
          keep(`${by}, ${name}: gone`, goneMs);
          if (by === 'cancel') keep(`${by}, ${name}: answered`, answerMs);
        }
    for (const [name, all] of [...taken].toSorted(([a], [b]) => a.localeCompare(b))) {
      const goal = /^cancel.*gone$/.test(name) ? { goal: { most: 50 } } : {};
      bench.findings.figures.push({ name, unit: 'ms', value: quantile(all, 0.5), p99: quantile(all, 0.99), ...goal });
    }
  },
});
