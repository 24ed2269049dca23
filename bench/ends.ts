// How long is anything of a command left after its end was asked for? From the request to the last process gone. `--small` for the tests.
import { readFileSync } from 'node:fs';
import { processesWith, startDaemon, until } from '../test/support/daemon.ts';

const rounds = process.argv.includes('--small') ? 3 : 40;

/** MARK stands for a program whose processes are counted. */
const trees: Record<string, { readonly command: string; readonly processes: number }> = {
  'one process': { command: 'exec MARK 60', processes: 1 },
  'a session of its own (setsid)': { command: 'setsid MARK 60 & MARK 60', processes: 2 },
  'a double fork': { command: '( (MARK 60 &) & ) ; MARK 60', processes: 2 },
  'nohup in the background': { command: 'nohup MARK 60 >/dev/null 2>&1 & MARK 60', processes: 2 },
  'a grandchild that holds stdout': { command: '(bash -c "MARK 60; :" &) ; MARK 60', processes: 2 },
};

/** Not there, or a zombie. */
function isGone(pid: number): boolean {
  try {
    return /^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true; // ENOENT or ESRCH: it is over.
  }
}

const MARK = 'mark-of-the-bench';
const isMark = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(`./${MARK}\0`);

await using daemon = await startDaemon();
await using client = await daemon.connect();
await client.call('terminal_execute', { command: `cp /bin/sleep ./${MARK}` });

/** Milliseconds from the end that was asked for to the last process gone, and to the answer. */
async function end(
  tree: keyof typeof trees,
  by: 'cancel' | 'disconnect',
): Promise<{ goneMs: number; answerMs: number }> {
  const { command, processes } = trees[tree] as (typeof trees)[string];
  const other = await daemon.connect();
  const running = other.call('terminal_execute', { command: command.replaceAll('MARK', `./${MARK}`) }, { callId: 'c' });
  const pidsNow = () => processesWith(MARK).filter((it) => !isGone(it) && isMark(it));
  await until(() => pidsNow().length === processes);
  const pids = pidsNow();
  const from = performance.now();
  let answerMs = Number.NaN;
  const answered = running.then(
    () => (answerMs = performance.now() - from),
    () => undefined, // Its connection ended.
  );
  void (by === 'cancel' ? other.request('calls.cancel', { callId: 'c' }) : other[Symbol.asyncDispose]());
  while (!pids.every(isGone)) await new Promise((resolve) => setImmediate(resolve));
  const goneMs = performance.now() - from;
  await answered;
  await other[Symbol.asyncDispose]();
  return { goneMs, answerMs };
}

const at = (values: number[], share: number): string =>
  (values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] as number).toFixed(1).padStart(7);

for (const by of ['cancel', 'disconnect'] as const) {
  for (const tree of Object.keys(trees)) {
    const all: { goneMs: number; answerMs: number }[] = [];
    for (let round = 0; round < rounds; round += 1) all.push(await end(tree, by));
    const gone = all.map((it) => it.goneMs);
    const answer = all.map((it) => it.answerMs);
    const told = by === 'cancel' ? `  answered p50 ${at(answer, 0.5)} ms` : '';
    console.log(`${by}, ${tree}`.padEnd(46), `gone p50 ${at(gone, 0.5)} ms  p99 ${at(gone, 0.99)} ms${told}`);
  }
}
