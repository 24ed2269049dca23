import { entry } from '../base/runtime.ts';
import type { ServeFlags } from '../daemon/config.ts';
import { findUserDirs } from '../daemon/user-dirs.ts';
import { type CliCaller, startDaemon } from './connect.ts';
import { say } from './output.ts';

/** `ringfence serve`: runs a daemon in the foreground, or with `--detach` in the background. Returns the exit code. */
export async function serve(
  flags: ServeFlags & { detach?: boolean; listenHttp?: string; fleet?: string },
  { env, cwd }: CliCaller,
): Promise<number> {
  const { detach, socket, state, listen, listenHttp, policy, fleet, workspace = [] } = flags;
  const args = [
    ...Object.entries({ listen, 'listen-http': listenHttp, policy, fleet }).flatMap(([name, value]) =>
      value === undefined ? [] : [`--${name}`, value],
    ),
    ...workspace.flatMap((it) => ['--workspace', it]),
  ];
  const dirs = findUserDirs(flags, env);
  if (detach) {
    const { pid, listeners, confinement } = await startDaemon(dirs, args, { env, cwd });
    say(`daemon ready: pid ${pid}, ${listeners.join(', ')}, confinement level ${confinement.level}`);
    return 0;
  }
  const where = Object.entries({ socket, state }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, value],
  );
  const { execa } = await import('execa');
  // Through the channel the daemon notices when this process is killed: a foreground daemon ends with its command.
  const child = execa(process.execPath, [entry('entries/main'), '--end-with-parent', ...where, ...args], {
    stdio: 'inherit',
    ipc: true,
    env: { ...env },
    extendEnv: false,
    cwd,
    reject: false,
    forceKillAfterDelay: false,
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  const { exitCode } = await child;
  return exitCode ?? 1;
}
