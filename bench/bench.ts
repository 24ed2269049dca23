/** Defines a bench, and collects its findings. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../test/support/daemon.ts';
import { median, quantile, ratioOf, type Spread, type Taken } from './measure.ts';
import type { Picture } from './svg.ts';

export type Unit = 'ms' | '/s' | 'MB/s' | 'MiB' | 'KiB' | '';

/** A goal: at most so many times the floor, or a value of at most or at least. */
export interface Goal {
  readonly ratio?: number;
  readonly most?: number;
  readonly least?: number;
}

export interface Figure {
  readonly name: string;
  readonly unit: Unit;
  /** The median if there are several measurements. */
  readonly value: number;
  readonly p95?: number;
  readonly p99?: number;
  /** The first call of a session, where it is reported apart from the others. */
  readonly first?: number;
  /** Ratio to the floor's time, measured in turns with it; lower is better. */
  readonly over?: { readonly floor: string; readonly ratio: Spread };
  /** JavaScript heap that each run allocates in the daemon, before garbage collection. */
  readonly allocatedKiB?: number;
  readonly goal?: Goal;
}

/** The findings of a bench. */
export interface Findings {
  readonly figures: Figure[];
  readonly pictures: Picture[];
  /** Generated sentences about the figures. */
  readonly says: string[];
  readonly skipped: { readonly name: string; readonly reason: string }[];
}

export interface Bench {
  readonly title: string;
  /** The one question that the bench answers. */
  readonly question: string;
  run(bench: Context): Promise<void>;
}

export const defineBench = (bench: Bench): Bench => bench;

interface TimeOptions<Name extends string> {
  /** The subject to compare the others with, or one for each; subjects without one stand alone. */
  readonly over?: NoInfer<Name> | Partial<Record<NoInfer<Name>, NoInfer<Name>>>;
  readonly goals?: Partial<Record<NoInfer<Name>, Goal>>;
}

/** Allows commands and deletions; a person is asked about writes below `asked`. */
const POLICY = [
  'tiers:',
  '  execute: { decision: allow }',
  '  write: { decision: allow, approve: [] }',
  'approvals: { headless: wait }',
  'rules:',
  '  - { id: ask, match: { write: "asked/**" }, decision: ask, reason: a person is asked }',
  '',
].join('\n');

/** Room for a thousand connections that stay silent for long. */
const LIMITS = {
  connectionsMax: 1100,
  principalConnectionShare: 1,
  connectionsBeforeHelloMax: 1100,
  helloTimeoutMs: 600_000,
};

/** One run of a bench. */
export class Context {
  readonly small: boolean;
  /** Whether to include parts that take minutes and gigabytes. */
  readonly long: boolean;
  readonly findings: Findings = { figures: [], pictures: [], says: [], skipped: [] };
  readonly #daemons: Daemons;

  constructor({ small, long }: { readonly small: boolean; readonly long: boolean }, daemons: Daemons) {
    this.small = small;
    this.long = long;
    this.#daemons = daemons;
  }

  /** Picks the number for the small or the full form. */
  size(small: number, full: number): number {
    return this.small ? small : full;
  }

  /** The daemon shared by all benches of this process. */
  daemon(): Promise<TestDaemon> {
    return this.#daemons.shared();
  }

  /** A client of that daemon, whose workspace is a folder of this bench; closed at the end of the process. */
  client(folder: string): Promise<Client & { readonly folder: string }> {
    return this.#daemons.client(folder);
  }

  /** Adds the times of subjects that took turns. */
  times<Name extends string>(taken: Record<Name, Taken>, { over, goals }: TimeOptions<Name> = {}): void {
    for (const name of Object.keys(taken) as Name[]) {
      const floor = typeof over === 'object' ? over[name] : over;
      const all = taken[name].flat();
      const goal = goals?.[name];
      this.findings.figures.push({
        name,
        unit: 'ms',
        value: median(all),
        ...(all.length >= 100 && { p99: quantile(all, 0.99) }),
        ...(floor !== undefined && floor !== name && { over: { floor, ratio: ratioOf(taken[name], taken[floor]) } }),
        ...(goal && { goal }),
      });
    }
  }

  /** Adds one subject relative to a second floor. */
  beside(name: string, taken: Taken, floor: { readonly name: string; readonly taken: Taken }): void {
    this.times({ [name]: taken, [floor.name]: floor.taken }, { over: { [name]: floor.name } });
    this.findings.figures.pop();
  }

  /** Adds the rates of subjects; each turn does `amount` units. */
  rates<Name extends string>(
    taken: Record<Name, Taken>,
    { amount, unit, over, goals }: TimeOptions<Name> & { amount: number; unit: '/s' | 'MB/s' },
  ): void {
    const before = this.findings.figures.length;
    this.times(taken, { ...(over && { over }), ...(goals && { goals }) });
    for (const it of this.findings.figures.splice(before)) {
      const { p99: _, ...figure } = it;
      this.findings.figures.push({ ...figure, unit, value: (amount / it.value) * 1000 });
    }
  }

  value(name: string, value: number, unit: Unit, goal?: Goal): void {
    this.findings.figures.push({ name, unit, value, ...(goal && { goal }) });
  }

  say(sentence: string): void {
    this.findings.says.push(sentence);
  }

  skip(name: string, reason: string): void {
    this.findings.skipped.push({ name, reason });
  }

  draw(picture: Picture): void {
    this.findings.pictures.push(picture);
  }
}

/** One daemon for all benches of a process, started on first use. */
export class Daemons implements AsyncDisposable {
  readonly #parts = new AsyncDisposableStack();
  #daemon: Promise<TestDaemon> | undefined;

  shared(): Promise<TestDaemon> {
    this.#daemon ??= startDaemon({ policy: POLICY, limits: LIMITS }).then((it) => this.#parts.use(it));
    return this.#daemon;
  }

  async client(folder: string): Promise<Client & { readonly folder: string }> {
    const daemon = await this.shared();
    const workspace = join(daemon.workspace, folder);
    mkdirSync(workspace, { recursive: true });
    const client = this.#parts.use(await daemon.connect({ workspace }));
    return Object.assign(client, { folder: workspace });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#parts.disposeAsync();
  }
}
