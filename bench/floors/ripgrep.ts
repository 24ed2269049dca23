import { spawn } from 'node:child_process';
import { rgPath } from '@vscode/ripgrep';

/** Runs bare ripgrep in a folder and reads its output. */
export const ripgrep = (cwd: string, ...args: string[]): Promise<void> =>
  new Promise((resolve, reject) => {
    const options = ['--no-config', '--no-require-git', ...args, './'];
    const child = spawn(rgPath, options, { cwd, stdio: ['ignore', 'pipe', 'ignore'] });
    child.stdout.resume();
    child.once('error', reject).once('close', () => resolve());
  });
