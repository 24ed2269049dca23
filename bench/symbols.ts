// What does it cost to ask for symbols of this repository's own sources through the daemon, cold and warm? `--small` for the tests.
import { cpSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dataOf, startDaemon } from '../test/support/daemon.ts';

const rounds = process.argv.includes('--small') ? 3 : 30;
const root = fileURLToPath(new URL('..', import.meta.url));

await using daemon = await startDaemon();
await using client = await daemon.connect();
for (const it of ['src', 'workers', 'tsconfig.json', 'package.json'])
  cpSync(join(root, it), join(daemon.workspace, it), { recursive: true });

const timed = async (run: () => Promise<unknown>) => {
  const from = performance.now();
  await run();
  return performance.now() - from;
};
const refer = (symbol: string) => dataOf(client.call('workspace_find_references', { symbol }));
const find = (query: string) => dataOf(client.call('workspace_search_symbol', { query }));

console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`);
const figures = [];
const subjects: [string, () => Promise<unknown>][] = [
  ['file_grep, for comparison', () => dataOf(client.call('file_grep', { pattern: 'PathRules' }))],
  ['references', () => refer('PathRules')],
  ['references, very many', () => refer('limits')],
  ['symbols', () => find('PathRules')],
];
console.log(`cold, the first question    ${(await timed(() => refer('PathRules'))).toFixed(0)} ms`);
for (const [name, ask] of subjects) {
  const took: number[] = [];
  for (let round = 0; round < rounds + 3; round++) {
    const ms = await timed(ask);
    if (round >= 3) took.push(ms);
  }
  took.sort((a, b) => a - b);
  const at = (share: number) => took[Math.min(took.length - 1, Math.floor(took.length * share))] as number;
  figures.push({ name, p50Ms: at(0.5), p99Ms: at(0.99) });
  console.log(`${name.padEnd(26)}  p50 ${at(0.5).toFixed(1)} ms  p99 ${at(0.99).toFixed(1)} ms`);
}
console.log(JSON.stringify({ bench: 'symbols', node: process.version, figures }));
