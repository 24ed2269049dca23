/** Starts tier hosts: what each is told at its start, and in which sandbox it runs. */
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { Identity } from '../sandbox/git/commit-author.ts';
import { commandEnvironment } from '../sandbox/launcher.ts';
import type { Masks } from '../sandbox/masks.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Follower } from './follower/follower.ts';
import { Host, type HostOptions } from './host.ts';
import type { HostKey } from './host-masks.ts';
import { shapeOf } from './shape.ts';

export interface StartHostOptions {
  /** Gives the changes of a workspace. Throws NOT_FOUND if that is gone. */
  followerOf?(workspace: string): Follower;
  readonly sandbox: Sandbox;
  /** Node and its arguments for the host process. */
  readonly program: readonly string[];
  readonly limits: Limits;
  /** Gives the spool of a workspace, in which its write hosts keep what calls change; undefined for none. */
  spoolOf?(workspace: string): string | undefined;
  /** The author of commits. */
  readonly identity?: Identity;
  /** Environment variables of commands in a workspace, PATH among them; the caller's come after. */
  environmentOf?(workspace: string): Readonly<Record<string, string>>;
}

/** Starts the host of a key with the masks that its sandbox applies. Throws SANDBOX_UNAVAILABLE. */
export function startHost(key: HostKey, masks: Masks, options: StartHostOptions, powers: Powers): Host {
  const { tier, workspace, egress } = key;
  const { sandbox, program, limits } = options;
  const startedAt = powers.monotonicMs();
  const spool = tier === 'write' ? options.spoolOf?.(workspace) : undefined;
  const follower = spool === undefined ? undefined : options.followerOf?.(workspace);
  const host = new Host({
    tier,
    workspace,
    limits,
    powers,
    setup: setupOf(key, options),
    threads: shapeOf(tier, limits),
    spool,
    follower,
    egress: egress?.stream,
    start: (stdio) => sandbox.startHost(tier, workspace, program, stdio, { masks, folders: key.view.folders }),
  });
  const tell = () => {
    const ms = Math.round(powers.monotonicMs() - startedAt);
    powers.log.info({ tier, workspace, pid: host.pid, ms }, 'tier host ready');
  };
  // The host itself logs why it did not start.
  host.ready.then(tell, () => {});
  return host;
}

function setupOf(key: HostKey, options: StartHostOptions): HostOptions['setup'] {
  const { tier, workspace, view, heapMb = Infinity } = key;
  const { sandbox, identity, environmentOf, limits: given } = options;
  const limits = { ...given, threadHeapMb: Math.min(given.threadHeapMb, heapMb) };
  const common = { tier, view, limits, ...(tier !== 'external_api' && { workspace }) };
  if (tier !== 'execute') return common;
  return {
    ...common,
    command: {
      ...sandbox.commandSandbox(workspace, { folders: view.folders }),
      environment: { ...commandEnvironment(workspace, sandbox.confinement), ...environmentOf?.(workspace) },
    },
    identity,
  };
}
