/** What all verbs of the fleet's operator share: the folder, the roster and its changes, the bus. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { defaultLimits as limits } from '../../base/limits.ts';
import { pause, systemPowers } from '../../base/powers.ts';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import { readCredential } from '../../fleet/credential.ts';
import { FleetError } from '../../fleet/fleet-error.ts';
import { fleetFiles, readFleet, writeRoster } from '../../fleet/folder.ts';
import type { FleetLink } from '../../fleet/link.ts';
import { connectBus } from '../../fleet/nats.ts';
import { changed, type Roster } from '../../fleet/roster.ts';
import { inboxOf } from '../../fleet/subjects.ts';
import { acquireLock } from '../../store/database.ts';
import type { CliCaller } from '../connect.ts';
import { harmless, say } from '../output.ts';

export interface FleetFlags {
  readonly json?: boolean;
  /** The folder of the fleet. */
  readonly dir?: string;
}

export const powers = systemPowers();

export const folderOf = ({ dir }: FleetFlags, { env, cwd }: CliCaller): string =>
  dir === undefined ? join(findUserDirs({}, env).configHome, 'ringfence/fleet') : resolve(cwd, dir);

export const RETRY_MS = 250;
/** Time in which the bus reads a new roster. */
export const ROSTER_MS = 10_000;
/** Time in which it reads one without changes of the member that connects: it refuses everybody for a moment. */
const RELOAD_MS = 1_000;

/** Tries again for a time, since the bus may not have read the roster yet. Throws FleetError. */
export async function retried<T>(ms: number, attempt: () => Promise<T>): Promise<T> {
  for (const until = powers.monotonicMs() + ms; ; ) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof FleetError) || powers.monotonicMs() > until) throw error;
      await pause(RETRY_MS, keptAlive);
    }
  }
}

/** Connects to the bus as the operator. Throws FleetError. */
export async function connectOperator(folder: string): Promise<FleetLink> {
  const credential = readCredential(fleetFiles(folder).operatorCredential);
  const inbox = inboxOf(credential.role, credential.name);
  return await retried(RELOAD_MS, () => connectBus({ credential, inbox, waits: false, limits, powers }));
}

const LOCK_TRIES = 100;
const LOCK_TRY_MS = 50;

/** Changes the roster, which nobody else changes meanwhile, and has the bus take it over. Throws FleetError. */
export async function changeRoster(
  folder: string,
  change: (roster: Roster) => Partial<Pick<Roster, 'members' | 'invitations' | 'policy' | 'bundle'>>,
): Promise<Roster> {
  const path = `${fleetFiles(folder).roster}.lock`;
  let lock = acquireLock(path);
  for (let tries = 0; !lock && tries < LOCK_TRIES; tries++) {
    await pause(LOCK_TRY_MS, keptAlive);
    lock = acquireLock(path);
  }
  if (!lock) throw new FleetError(`another program is changing the roster (${path})`);
  using _ = lock;
  const { privateKey, roster } = readFleet(folder, limits);
  const next = changed(roster, change(roster), limits);
  writeRoster(folder, next, privateKey);
  if (!reloadBus(folder))
    say(harmless(`nats-server does not run here: copy ${fleetFiles(folder).users} to it, and reload it`));
  return next;
}

/** Timers of the powers let the program end; nothing else keeps this one. */
export const keptAlive = {
  after: (ms: number, fn: () => void) => {
    const alive = setInterval(() => {}, 2 ** 30);
    const timer = powers.after(ms, () => {
      clearInterval(alive);
      fn();
    });
    return {
      cancel: () => {
        clearInterval(alive);
        timer.cancel();
      },
    };
  },
};

/** Has nats-server read its config again; false if it does not run on this machine. */
function reloadBus(folder: string): boolean {
  try {
    const pid = Number(readFileSync(fleetFiles(folder).pid, 'utf8'));
    // The file may be left over, and the number may be that of another process by now.
    if (readFileSync(`/proc/${pid}/comm`, 'utf8').trim() !== 'nats-server') return false;
    process.kill(pid, 'SIGHUP');
    return true;
  } catch {
    return false; // ENOENT: no file, or no such process. EPERM: the server of another user.
  }
}
