/**
 * Finds the Unix sockets of a workspace on which a process listens, which are masked for commands. A socket that an ended command left
 * behind is dead, and a mount on it would keep the next command from removing it.
 */
import { closeSync, constants, lstatSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import { basename, dirname, join } from 'node:path';
import type { Powers } from '../base/powers.ts';

/** Age from which a socket that refuses connections counts as dead: a server makes its socket before it listens. */
const SETTLED_MS = 10_000;
/** How long a connection may take; a server that is busy counts as alive. */
const CONNECT_MS = 200;
const DEAD_MAX = 4096;

export class LiveSockets {
  readonly #workspace: string;
  readonly #powers: Powers;
  /** Dead socket files: nothing can make such a file listen again. */
  readonly #dead = new Set<string>();

  /** `workspace` is absolute. */
  constructor(workspace: string, powers: Powers) {
    this.#workspace = workspace;
    this.#powers = powers;
  }

  /** Filters `paths`, relative to the workspace: leaves out sockets that are known to be dead. */
  async withoutDead(paths: readonly string[]): Promise<string[]> {
    const dead = await Promise.all(paths.map((path) => this.#isDead(path)));
    return paths.filter((_, i) => !dead[i]);
  }

  async #isDead(path: string): Promise<boolean> {
    const at = join(this.#workspace, path);
    const stat = lstatSync(at, { bigint: true, throwIfNoEntry: false });
    if (!stat?.isSocket() || Number(stat.ctimeMs) > this.#powers.now() - SETTLED_MS) return false;
    const print = `${stat.dev} ${stat.ino} ${stat.ctimeNs}`;
    if (this.#dead.has(print)) return true;
    if (!(await refuses(at, this.#powers))) return false;
    if (this.#dead.size >= DEAD_MAX) this.#dead.clear();
    this.#dead.add(print);
    return true;
  }
}

/** Whether a socket refuses connections. Connects through its directory's descriptor: an address holds only 107 bytes. */
function refuses(path: string, powers: Powers): Promise<boolean> {
  let fd: number;
  try {
    fd = openSync(dirname(path), constants.O_DIRECTORY | constants.O_RDONLY);
  } catch {
    return Promise.resolve(false); // EACCES, ENOENT.
  }
  const socket = connect(`/proc/self/fd/${fd}/${basename(path)}`);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = powers.after(CONNECT_MS, () => resolve(false));
  socket.once('connect', () => resolve(false));
  socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'ECONNREFUSED'));
  return promise.finally(() => {
    timer.cancel();
    socket.destroy();
    closeSync(fd);
  });
}
