import type { ServeFlags } from '../daemon/config.ts';
import { findUserDirs } from '../daemon/user-dirs.ts';
import { type CliCaller, startDaemon } from './connect.ts';
import { say } from './output.ts';

/** `ringfence serve --detach`: runs a daemon in the background. Without the flag bin/ringfence.js becomes the daemon itself. */
export async function serveDetached(
  flags: ServeFlags & { listenHttp?: string; fleet?: string },
  { env, cwd }: CliCaller,
): Promise<number> {
  const { listen, listenHttp, policy, fleet, workspace = [] } = flags;
  const args = [
    ...Object.entries({ listen, 'listen-http': listenHttp, policy, fleet }).flatMap(([name, value]) =>
      value === undefined ? [] : [`--${name}`, value],
    ),
    ...workspace.flatMap((it) => ['--workspace', it]),
  ];
  const { pid, listeners, confinement } = await startDaemon(findUserDirs(flags, env), args, { env, cwd });
  say(`daemon ready: pid ${pid}, ${listeners.join(', ')}, confinement level ${confinement.level}`);
  return 0;
}
