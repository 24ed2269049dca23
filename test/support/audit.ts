/** An audit log in a folder of its own, with timers and a clock that the test controls. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { defaultLimits, type Limits } from '../../src/base/limits.ts';
import { type Powers, systemPowers } from '../../src/base/powers.ts';
import { type AuditEntry, AuditLog, type AuditOptions } from '../../src/store/audit/log.ts';
import { temporaryDir } from './daemon.ts';

interface Waiting {
  delayMs: number;
  fn: () => void;
}

export class ManualPowers implements Powers {
  readonly #system = systemPowers();
  readonly log = this.#system.log;
  readonly uuid = this.#system.uuid;
  readonly secret = this.#system.secret;
  readonly spawn = this.#system.spawn;
  readonly monotonicMs = this.#system.monotonicMs;
  readonly every = this.#system.every;
  nowMs = Date.UTC(2026, 0, 1);
  #timers: Waiting[] = [];
  now = () => this.nowMs;
  after = (delayMs: number, fn: () => void) => {
    const timer = { delayMs, fn };
    this.#timers.push(timer);
    return {
      cancel: () => {
        this.#timers = this.#timers.filter((it) => it !== timer);
      },
    };
  };
  /** Fires all pending timers of at most `delayMs`. */
  fire(delayMs: number): void {
    const due = this.#timers.filter((it) => it.delayMs <= delayMs);
    this.#timers = this.#timers.filter((it) => !due.includes(it));
    for (const { fn } of due) fn();
  }
  get delays(): number[] {
    return this.#timers.map((it) => it.delayMs);
  }
}

export class LogFolder implements Disposable {
  readonly folder = temporaryDir('audit');
  readonly powers = new ManualPowers();
  readonly path = join(this.folder, 'audit.db');
  readonly checkpoints = join(this.folder, 'audit.checkpoints');
  readonly key = join(this.folder, 'audit.key');
  #open: AuditLog | undefined;

  /** Opens the log, again if it was open. */
  open(limits: Partial<Limits> = {}, options: AuditOptions = { redact: (it) => it }): AuditLog {
    this.close();
    this.#open = new AuditLog(this.path, { ...defaultLimits, ...limits }, this.powers, options);
    return this.#open;
  }

  close(): void {
    this.#open?.[Symbol.dispose]();
    this.#open = undefined;
  }

  /** Edits the database like somebody with sqlite3 but without the key. */
  edit(edit: (database: DatabaseSync) => void): void {
    const database = new DatabaseSync(this.path);
    try {
      edit(database);
    } finally {
      database.close();
    }
  }

  [Symbol.dispose](): void {
    this.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Entries of `n` writing calls: an intent and an outcome each. */
export function callsOf(n: number, sessionId = 's'): AuditEntry[] {
  return Array.from({ length: n }, (_, at) => {
    const call = { sessionId, principal: 'agent', callId: `call-${at}`, tool: 'file_write' } as const;
    const effects = [{ kind: 'write', target: `f-${at}` }] as const;
    return [
      { ...call, kind: 'intent', input: { path: `f-${at}` }, effects } as const,
      { ...call, kind: 'outcome', effects, decision: 'allow', durationMs: at + 0.5 } as const,
    ];
  }).flat();
}
