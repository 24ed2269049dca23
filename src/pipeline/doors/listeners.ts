/** Finds what listens on the machine's loopback, by the kernel's tables: a program's own word proves nothing. */
import { type Dirent, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import type { Powers } from '../../base/powers.ts';

/** What listens at a port of this machine's loopback. */
export interface Listener {
  readonly port: number;
  /** The address to connect to: 127.0.0.1, or ::1 if it listens on IPv6 only. */
  readonly address: '127.0.0.1' | '::1';
  /** Inodes of the listening sockets: another listener has others. */
  readonly sockets: readonly string[];
  /** Name of the user who made them. */
  readonly owner: string;
  /** Real path of the executable that holds them; undefined if it is another user's, and so not seen. */
  readonly program?: string;
  /** The processes that hold them, as far as they are seen. */
  readonly pids: readonly number[];
}

/** Processes and descriptors that are looked at; with more, the program is unknown. */
const PROCESSES_MAX = 8_192;
const DESCRIPTORS_MAX = 262_144;
/** Descriptors that are looked at in one go, for about 2 ms. */
const DESCRIPTORS_A_STEP = 1_000;
const LISTENS = '0A';

/** Addresses as the tables of the kernel write them, the most special first: the kernel prefers it. */
const V4 = ['0100007F', '0000000000000000FFFF00000100007F', '00000000'];
const V6 = ['00000000000000000000000001000000', '00000000000000000000000000000000'];

/** Time for which the holders of a socket are kept: to find them takes looking at the descriptors of all processes. */
const HOLDERS_KEPT_MS = 10_000;
const HOLDERS_KEPT_MAX = 256;

type Holders = Pick<Listener, 'program' | 'pids'>;

export class Listeners {
  readonly #powers: Pick<Powers, 'monotonicMs'>;
  readonly #holders = new Map<string, { readonly found: Promise<Holders>; readonly untilMs: number }>();

  constructor(powers: Pick<Powers, 'monotonicMs'>) {
    this.#powers = powers;
  }

  /** What a connection to the port would reach now; undefined if nothing listens. */
  async at(port: number): Promise<Listener | undefined> {
    // The kernel walks all buckets of its table of connections for it, which takes 15 ms on large machines: never in this thread.
    const tables = await Promise.all(
      ['tcp', 'tcp6'].map((it) => readFile(`/proc/net/${it}`, 'latin1').catch(() => '')),
    );
    const rows = tables.flatMap((it) => rowsOf(it, port));
    for (const [all, address] of [
      [V4, '127.0.0.1'],
      [V6, '::1'],
    ] as const)
      for (const local of all) {
        const found = rows.filter((it) => it.local === local);
        if (found.length === 0) continue;
        const sockets = found.map(({ inode }) => inode).sort();
        const owner = [...new Set(found.map(({ uid }) => userName(uid)))].sort().join(' and ');
        return { port, address, sockets, owner, ...(await this.#holdersOf(sockets)) };
      }
    return undefined;
  }

  #holdersOf(sockets: readonly string[]): Promise<Holders> {
    const now = this.#powers.monotonicMs();
    const key = sockets.join();
    const known = this.#holders.get(key);
    if (known && known.untilMs > now) return known.found;
    if (this.#holders.size >= HOLDERS_KEPT_MAX) this.#holders.clear();
    const found = holdersOf(new Set(sockets.map((it) => `socket:[${it}]`)));
    this.#holders.set(key, { found, untilMs: now + HOLDERS_KEPT_MS });
    return found;
  }
}

/** The listening sockets at a port in one of the tables. */
function rowsOf(table: string, port: number): { local: string; uid: string; inode: string }[] {
  const own = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local = '', , state]) => state === LISTENS && local.endsWith(own))
    .map(([, local = '', , , , , , uid = '', , inode = '']) => ({ local: local.slice(0, -own.length), uid, inode }));
}

/** The programs and processes that hold one of the sockets. Other work runs between its steps: a machine has many descriptors. */
async function holdersOf(links: ReadonlySet<string>): Promise<Holders> {
  const processes = entriesOf('/proc').filter(({ name }) => /^\d+$/.test(name));
  const programs = new Set<string>();
  const pids: number[] = [];
  let looked = 0;
  if (processes.length > PROCESSES_MAX) return { pids };
  for (const { name: pid } of processes) {
    const fds = entriesOf(`/proc/${pid}/fd`);
    const before = Math.floor(looked / DESCRIPTORS_A_STEP);
    looked += fds.length;
    if (looked > DESCRIPTORS_MAX) return { pids: [] };
    if (Math.floor(looked / DESCRIPTORS_A_STEP) > before) await setImmediate();
    if (!fds.some(({ name }) => links.has(linkOf(`/proc/${pid}/fd/${name}`)))) continue;
    programs.add(linkOf(`/proc/${pid}/exe`));
    pids.push(Number(pid));
  }
  return pids.length === 0 ? { pids } : { program: [...programs].sort().join(' and '), pids };
}

const userName = (uid: string): string =>
  textOf('/etc/passwd')
    .split('\n')
    .map((it) => it.split(':'))
    .find((it) => it[2] === uid)?.[0] ?? `user ${uid}`;

// ENOENT, EACCES: it has ended, or is another user's.
const textOf = (path: string): string => orElse('', () => readFileSync(path, 'utf8'));
const entriesOf = (path: string): Dirent[] => orElse([], () => readdirSync(path, { withFileTypes: true }));
const linkOf = (path: string): string => orElse('', () => readlinkSync(path));

function orElse<T>(otherwise: T, read: () => T): T {
  try {
    return read();
  } catch {
    return otherwise; // The process has ended meanwhile, or the table is not there.
  }
}
