// What does a search through the daemon cost beside bare ripgrep over the same tree? They take turns. `--small` for the tests.
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { rgPath } from '@vscode/ripgrep';
import { dataOf, startDaemon } from '../test/support/daemon.ts';

const small = process.argv.includes('--small');
const files = small ? 400 : 20_000;
const rounds = small ? 3 : 30;

await using daemon = await startDaemon();
await using client = await daemon.connect();

/** Sources of 2 KiB, forty to a directory, a tenth of them ignored; every hundredth file has what is searched for. */
for (let at = 0; at < files; at++) {
  const folder = join(daemon.workspace, `part-${at % 20}`, `d${Math.floor(at / 40) % 25}`, `e${Math.floor(at / 1000)}`);
  mkdirSync(folder, { recursive: true });
  const body = `export const value${at} = ${at};\n// some words about what this one is for\n`.repeat(28);
  const name = at % 10 === 0 ? `f${at}.log` : `f${at}.${at % 3 === 0 ? 'js' : 'ts'}`;
  writeFileSync(join(folder, name), at % 100 === 1 ? `${body}needle ${at}\n` : body);
}
writeFileSync(join(daemon.workspace, '.gitignore'), '*.log\n');

/** Its output is read, as whoever wants it would. */
const bare = (...args: string[]) =>
  new Promise<void>((resolve) => {
    const options = ['--no-config', '--no-require-git', ...args, './'];
    const child = spawn(rgPath, options, { cwd: daemon.workspace, stdio: ['ignore', 'pipe', 'ignore'] });
    child.stdout.resume();
    child.once('close', () => resolve());
  });
const call = (tool: 'file_grep' | 'file_glob' | 'workspace_structure', input: Record<string, unknown>) =>
  dataOf(client.call(tool, input as never));

const everything = small ? 5000 : 20_000;
const subjects: [name: string, ours: () => Promise<unknown>, floor: () => Promise<void>][] = [
  [
    'file_grep, 1 file',
    () => call('file_grep', { pattern: 'words', path: 'part-1/d0/e0/f1.ts' }),
    () => bare('--max-depth=1', '-e', 'x'),
  ],
  [
    'file_grep, rare',
    () => call('file_grep', { pattern: 'needle', maxResults: 5000 }),
    () => bare('-n', '-i', '-e', 'needle'),
  ],
  [
    'file_grep, none',
    () => call('file_grep', { pattern: 'n[aeiou]thing at all' }),
    () => bare('-n', '-i', '-e', 'n[aeiou]thing at all'),
  ],
  [
    'file_grep, *.ts',
    () => call('file_grep', { pattern: 'needle', include: '*.ts' }),
    () => bare('-n', '-i', '-g', '*.ts', '-e', 'needle'),
  ],
  [
    'file_grep, 200 of many',
    () => call('file_grep', { pattern: 'words' }),
    () => bare('-n', '-i', '-m1', '-e', 'words'),
  ],
  [
    'file_glob, **/*.ts',
    () => call('file_glob', { pattern: '**/*.ts', maxResults: everything }),
    () => bare('--files', '-g', '**/*.ts'),
  ],
  ['file_glob, few', () => call('file_glob', { pattern: '**/f1*1.js' }), () => bare('--files', '-g', '**/f1*1.js')],
  ['workspace_structure', () => call('workspace_structure', {}), () => bare('--files')],
];

const at = (sorted: readonly number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] as number;
const timed = async (run: () => Promise<unknown>) => {
  const from = performance.now();
  await run();
  return performance.now() - from;
};

console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${files} files\n`);
const figures = [];
for (const [name, ours, floor] of subjects) {
  const took = { ours: [] as number[], floor: [] as number[] };
  for (let round = 0; round < rounds + 3; round++) {
    const [mine, other] = [await timed(ours), await timed(floor)];
    if (round < 3) continue;
    took.ours.push(mine);
    took.floor.push(other);
  }
  for (const list of Object.values(took)) list.sort((a, b) => a - b);
  const [p50Ms, p99Ms, floorMs] = [at(took.ours, 0.5), at(took.ours, 0.99), at(took.floor, 0.5)];
  figures.push({ name, p50Ms, p99Ms, floorMs });
  const ratio = (p50Ms / floorMs).toFixed(2);
  console.log(
    `${name.padEnd(26)} p50 ${p50Ms.toFixed(1)} ms  p99 ${p99Ms.toFixed(1)} ms  rg ${floorMs.toFixed(1)} ms  ratio ${ratio}`,
  );
}
console.log(JSON.stringify({ bench: 'search', node: process.version, files, figures }));
