/**
 * Tracks which calls of a principal may have written since a question was asked. An approval of code that the person
 * was not shown holds only while its principal could not change that code: what `bash main.sh` sources is named
 * nowhere.
 */

import { isInside } from '../base/paths.ts';
import { runsBy } from '../tools/runs.ts';
import { hostTierOf } from '../tools/tool.ts';
import { reachOf, runsUnseen } from './approve/impact.ts';
import type { ClearedCall, JudgedCall } from './stage.ts';

/** Calls of one principal in one workspace; there are as many as the configuration has such pairs. */
interface PrincipalWrites {
  readonly principal: string;
  readonly root: string;
  /** Grows with each start and each end of a call. */
  turns: number;
  running: number;
}

export class WritesByPrincipal {
  /** Identifies the run of the daemon: writes before this run are unknown. */
  readonly #run: string;
  readonly #writers = new Map<string, PrincipalWrites>();
  readonly #begun = new Map<ClearedCall, PrincipalWrites>();
  #looks = 0;

  constructor(run: string) {
    this.#run = run;
  }

  /** Records the start of a call that may write; a retried call counts once. */
  begin(call: ClearedCall): void {
    if (this.#begun.has(call) || !mayWrite(call)) return;
    const { principal, root } = call;
    const key = JSON.stringify([principal, root]);
    const writer = this.#writers.get(key) ?? { principal, root, turns: 0, running: 0 };
    this.#writers.set(key, writer);
    this.#begun.set(call, writer);
    writer.turns += 1;
    writer.running += 1;
  }

  end(call: ClearedCall): void {
    const writer = this.#begun.get(call);
    if (!writer) return;
    this.#begun.delete(call);
    writer.turns += 1;
    writer.running -= 1;
  }

  /** Equal texts mean that nothing may have been written in between; undefined for a call that runs only what the person is shown. */
  stateFor({ principal, root, question, checked }: JudgedCall): string | undefined {
    const command = question.command;
    const isShown = command ? !runsUnseen(command) : !checked.effects.some((it) => it.kind === 'exec');
    if (isShown) return undefined;
    const writers = [...this.#writers.values()].filter(
      (it) => it.principal === principal && (isInside(it.root, root) || isInside(root, it.root)),
    );
    const turns = writers.reduce((sum, it) => sum + it.turns, 0);
    // A running call may write at any moment, so no two states are equal.
    const isRunning = writers.some((it) => it.running > 0);
    return `${this.#run}:${turns}${isRunning ? `:${++this.#looks}` : ''}`;
  }
}

function mayWrite(call: ClearedCall): boolean {
  const { tool, tier, effects } = call.checked;
  if (tier === 'read_only') return false;
  const command = call.question.command;
  if (command) return reachOf(command) !== 'reads';
  const changes = effects.some((it) => it.kind === 'write' || it.kind === 'delete');
  return changes || runsBy(tool, 'providers') !== undefined || hostTierOf(tool, tier) === 'execute';
}
