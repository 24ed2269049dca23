/** Approvals with a clock that tests move, on a store that outlives the daemons that open it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import { defaultLimits, type Limits } from '../../src/base/limits.ts';
import { type Powers, systemPowers } from '../../src/base/powers.ts';
import type { ApprovalDraft, ApprovalEvent } from '../../src/store/approvals/approval.ts';
import { Approvals } from '../../src/store/approvals/approvals.ts';

/** A machine on which daemons start and end. */
export class Machine implements Disposable {
  readonly #dir = mkdtempSync(join(tmpdir(), 'ringfence-approvals-'));
  readonly path = join(this.#dir, 'approvals.db');
  readonly events: ApprovalEvent[] = [];
  /** Whether the audit log can be written. */
  onRecord = true;
  readonly #limits: Limits;
  #now = Date.parse('2030-01-01T00:00:00Z');
  #timers = new Set<{ at: number; fn: () => void }>();
  #secrets = 0;
  readonly #started: Approvals[] = [];
  approvals: Approvals;

  constructor(limits: Partial<Limits> = {}) {
    this.#limits = { ...defaultLimits, ...limits };
    this.approvals = this.#start();
  }

  get now(): number {
    return this.#now;
  }

  get powers(): Powers {
    return {
      ...systemPowers(),
      now: () => this.#now,
      secret: () => (++this.#secrets).toString(16).padStart(12, '0').padEnd(64, '0'),
      after: (delayMs, fn) => {
        const timer = { at: this.#now + delayMs, fn };
        this.#timers.add(timer);
        return { cancel: () => this.#timers.delete(timer) };
      },
    };
  }

  /** Moves the clock, and fires due timers in order. */
  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter((it) => it.at <= until).toSorted((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.#timers.delete(due);
      this.#now = Math.max(this.#now, due.at);
      due.fn();
    }
    this.#now = until;
  }

  /** Simulates a killed daemon and the start of another one. */
  killAndRestart(): void {
    this.#timers.clear();
    this.approvals = this.#start();
  }

  /** Takes the names of the events so far. */
  told(): string[] {
    return this.events.splice(0).map((it) => (it.kind === 'resolved' ? it.settled.decision : it.kind));
  }

  [Symbol.dispose](): void {
    for (const it of this.#started) it[Symbol.dispose]();
    rmSync(this.#dir, { recursive: true });
  }

  #start(): Approvals {
    const { path, powers } = this;
    const approvals = new Approvals({
      path,
      powers,
      limits: this.#limits,
      record: ({ kind }) => {
        if (!this.onRecord) throw new ToolError('STORE_FAILED', `no record of ${kind}`);
      },
      onEvent: (event) => this.events.push(event),
    });
    this.#started.push(approvals);
    return approvals;
  }
}

export function draft(part: Partial<ApprovalDraft> = {}): ApprovalDraft {
  return {
    callId: 'c1',
    sessionId: 's1',
    principal: 'uid:1',
    client: 'test 1',
    parents: [],
    cwd: '.',
    workspace: '/ws',
    tool: 'file_write',
    input: { path: 'a' },
    effects: [{ kind: 'write', target: 'a' }],
    rule: 'r1',
    reason: 'Because.',
    impact: { level: 'medium', description: 'This operation will modify files', warnings: [] },
    remember: { exact: 'exactly this call', tool: 'calls of this tool with at most this impact' },
    bindingHash: 'b1',
    subjectHash: 'j1',
    askingRules: ['r1'],
    unknown: false,
    policyVersion: 'p1',
    timeoutMs: 300_000,
    rememberMaxMs: 28_800_000,
    ...part,
  };
}
