// Does the daemon grow with the commands that it has run? 10 000 of them, RSS looked at on the way; `--small` for the tests.
import { readFileSync } from 'node:fs';
import { dataOf, startDaemon } from '../test/support/daemon.ts';

const small = process.argv.includes('--small');
const commands = small ? 200 : 10_000;
const lanes = 8;
/** While pools, caches and rings fill, which they do once. */
const warmUp = commands / 5;
const samples = 40;

await using daemon = await startDaemon();
await using client = await daemon.connect();
const rssMib = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]) / 1024;

let done = 0;
async function run(times: number): Promise<void> {
  let left = times;
  const lane = async () => {
    while (left-- > 0) {
      await dataOf(client.call('terminal_execute', { command: `echo line ${left}; echo error >&2` }));
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

const from = performance.now();
await run(warmUp);
const seen = [{ done, mib: rssMib() }];
for (let at = 0; at < samples; at++) {
  await run((commands - warmUp) / samples);
  seen.push({ done, mib: rssMib() });
}
const seconds = (performance.now() - from) / 1000;

/** Least squares: MiB for each thousand commands. */
const mean = (all: number[]) => all.reduce((sum, it) => sum + it, 0) / all.length;
const [x, y] = [seen.map((it) => it.done / 1000), seen.map((it) => it.mib)];
const [meanX, meanY] = [mean(x), mean(y)];
const slope =
  x.reduce((sum, it, at) => sum + (it - meanX) * ((y[at] as number) - meanY), 0) /
  x.reduce((sum, it) => sum + (it - meanX) ** 2, 0);
const [early, late] = [mean(y.slice(0, samples / 4)), mean(y.slice(-samples / 4))];
console.log(`${done} commands in ${seconds.toFixed(1)} s, ${Math.round(done / seconds)}/s`);
console.log(
  `daemon RSS, MiB: ${early.toFixed(1)} early, ${late.toFixed(1)} late, ${Math.max(...y).toFixed(1)} at most`,
);
console.log(`growth, MiB                 ${(late - early).toFixed(1)}`);
console.log(`slope, MiB a 1000 commands  ${slope.toFixed(2)}`);
