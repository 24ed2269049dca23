import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Makes a repository with one commit and one file changed since. */
export function makeRepository(cwd: string, files: number): void {
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd });
  git('init', '-q');
  for (let at = 0; at < files; at++) {
    mkdirSync(join(cwd, `d${at % 20}`), { recursive: true });
    writeFileSync(join(cwd, `d${at % 20}/f${at}`), `${at}\n`);
  }
  git('add', '-A');
  git('commit', '-qm', 'first');
  writeFileSync(join(cwd, 'd1/f1'), 'changed\n');
}

/** Runs bare git and reads its output. */
export const gitStatus = (cwd: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const args = ['status', '--porcelain=v2', '-z', '--branch'];
    const child = spawn('git', args, { cwd, stdio: ['ignore', 'pipe', 'ignore'] });
    child.stdout.resume();
    child.once('error', reject).once('close', () => resolve());
  });
