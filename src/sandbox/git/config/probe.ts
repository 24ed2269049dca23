/** Checks that this machine lets a command have copies of repository configs, with a sandbox that holds nothing else. */
import { mkdirSync, mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Powers } from '../../../base/powers.ts';
import { COMMAND_STATUS_FD, GIT_COPIES } from '../../bubblewrap.ts';
import { Status } from '../../command/status.ts';
import { findProgram } from '../../find-program.ts';
import { GitCopies } from './copies.ts';

const CONFIG = '.git/config';
const PROBE_MS = 5000;

/** Reports that the sandbox is built, waits until the link is mounted, and checks it. */
const LOOK = 'echo; read -r _; [ -L "$0" ]';

/** Tells why copies do not work; undefined if they do. */
export async function whyNoGitCopies(powers: Powers): Promise<string | undefined> {
  if (findProgram('bwrap') === undefined) return 'there is no program `bwrap`';
  using folder = mkdtempDisposableSync(join(tmpdir(), 'ringfence-git-'));
  mkdirSync(join(folder.path, '.git'));
  writeFileSync(join(folder.path, CONFIG), '');
  return (await isLaidIn(folder.path, powers)) ? undefined : 'a link could not be mounted in a sandbox';
}

async function isLaidIn(folder: string, powers: Powers): Promise<boolean> {
  const at = { workspace: folder, firstFd: COMMAND_STATUS_FD + 1 };
  using copies = new GitCopies([{ path: CONFIG, text: '' }], at, powers);
  const args = [
    ...['--unshare-user', '--unshare-pid', '--disable-userns', '--cap-drop', 'ALL', '--die-with-parent'],
    ...['--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', '--tmpfs', '/run', '--dir', GIT_COPIES],
    ...['--bind', folder, folder, ...copies.args, '--json-status-fd', `${COMMAND_STATUS_FD}`],
    ...['--', '/bin/sh', '-c', LOOK, join(folder, CONFIG)],
  ];
  const stdio = ['pipe', 'pipe', 'ignore', 'ignore', 'pipe', ...copies.pipes] as const;
  const child = powers.spawn(findProgram('bwrap') as string, args, { stdio: [...stdio], env: {}, cwd: '/' });
  const timer = powers.after(PROBE_MS, () => child.kill('SIGKILL'));
  const status = new Status(child.stdio[COMMAND_STATUS_FD] as Readable);
  copies.feed(child, status);
  const [line, said] = [child.stdin as Writable, child.stdout as Readable];
  // EPIPE: the sandbox has ended.
  line.on('error', () => {});
  said.once('data', () =>
    status.onInit(async (init) => {
      await copies.lay(init);
      line.end('\n');
    }),
  );
  const code = await new Promise((resolve) => {
    child.once('error', () => resolve(undefined));
    child.once('exit', resolve);
  });
  timer.cancel();
  return code === 0;
}
