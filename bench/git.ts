// What does git_status cost beside the same git run bare, and beside bubblewrap alone? `--small` for the tests.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dataOf, startDaemon } from '../test/support/daemon.ts';
import { commandFloor } from './command-floor.ts';

const small = process.argv.includes('--small');
const rounds = small ? 10 : 200;
const files = small ? 50 : 1000;

await using daemon = await startDaemon();
await using client = await daemon.connect();
const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: daemon.workspace });
git('init', '-q');
for (let at = 0; at < files; at++) {
  const folder = join(daemon.workspace, `d${at % 20}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `f${at}`), `${at}\n`);
}
git('add', '-A');
git('commit', '-qm', 'first');
writeFileSync(join(daemon.workspace, 'd1/f1'), 'changed\n');

function bare(): Promise<void> {
  return new Promise((resolve, reject) => {
    const args = ['status', '--porcelain=v2', '-z', '--branch'];
    const child = spawn('git', args, { cwd: daemon.workspace, stdio: ['ignore', 'pipe', 'ignore'] });
    child.stdout.resume();
    child.once('error', reject).once('close', () => resolve());
  });
}

const subjects = {
  'git status, bare (floor)': bare,
  'bare bubblewrap true (floor)': commandFloor(daemon.workspace).bubblewrap,
  'terminal_execute true': () => dataOf(client.call('terminal_execute', { command: 'true' })),
  git_status: () => dataOf(client.call('git_status', {})),
  git_diff: () => dataOf(client.call('git_diff', {})),
  git_log: () => dataOf(client.call('git_log', {})),
};
const took = new Map<string, number[]>();
for (let round = -2; round < rounds; round++) {
  for (const [name, run] of Object.entries(subjects)) {
    const from = performance.now();
    await run();
    if (round >= 0) took.set(name, [...(took.get(name) ?? []), performance.now() - from]);
  }
}
const p50 = (name: keyof typeof subjects) =>
  (took.get(name) ?? []).sort((a, b) => a - b)[Math.floor(rounds / 2)] as number;
console.log(`${files} files, ${rounds} rounds in turns`);
for (const name of Object.keys(subjects) as (keyof typeof subjects)[])
  console.log(`${name.padEnd(32)} p50 ${p50(name).toFixed(1)} ms`);
const floor = p50('git status, bare (floor)') + p50('terminal_execute true');
console.log(`${'git_status / bare git and a command'.padEnd(40)} ${(p50('git_status') / floor).toFixed(2)}`);
console.log(`${'git_status above bare git and a command, ms'.padEnd(40)} ${(p50('git_status') - floor).toFixed(1)}`);
