/** Budgets of delegated sessions: what they may spend is taken out of what their parents have, and comes back unspent. */
import { ToolError } from '../base/errors.ts';

/** What a budget counts. US dollars are held in whole millionths, so that sums are exact. */
export const BUDGET_KINDS = ['usd', 'tokens', 'calls'] as const;
export type BudgetKind = (typeof BUDGET_KINDS)[number];

/** Most that may be spent; a kind without a number is bounded by the parent's budget only. */
export type BudgetTerms = Readonly<Partial<Record<BudgetKind, number | undefined>>>;

const MICROS = 1_000_000;
const WHOSE: Record<BudgetKind, string> = { usd: 'US dollars', tokens: 'tokens', calls: 'calls' };

const toUnits = (kind: BudgetKind, amount: number): number =>
  kind === 'usd' ? Math.ceil(Math.round(amount * MICROS * 1000) / 1000) : Math.ceil(amount);
const toAmount = (kind: BudgetKind, units: number): number => (kind === 'usd' ? units / MICROS : units);

export class Budget {
  readonly #parent: Budget | undefined;
  /** The rest of each kind, in units; a kind that is missing is the parent's. */
  readonly #left = new Map<BudgetKind, number>();
  #isClosed = false;

  /** Takes `terms` out of the parent's budget. Throws COST_LIMIT, and takes nothing, if so much is not left there. */
  constructor(terms: BudgetTerms, parent?: Budget) {
    this.#parent = parent;
    const taken: [BudgetKind, number][] = [];
    try {
      for (const kind of BUDGET_KINDS) {
        const amount = terms[kind];
        if (amount === undefined) continue;
        parent?.take(kind, amount);
        taken.push([kind, amount]);
        this.#left.set(kind, toUnits(kind, amount));
      }
    } catch (error) {
      for (const [kind, amount] of taken) parent?.giveBack(kind, amount);
      throw error;
    }
  }

  /** How much may still be spent; Infinity if nothing bounds it. */
  left(kind: BudgetKind): number {
    const units = this.#left.get(kind);
    if (units === undefined) return this.#parent?.left(kind) ?? Infinity;
    return Math.max(0, toAmount(kind, units));
  }

  /** Throws COST_LIMIT, and takes nothing, if less is left. */
  take(kind: BudgetKind, amount: number): void {
    if (this.#isClosed) throw new ToolError('CANCELLED', 'the budget of this session is closed: the session has ended');
    const units = this.#left.get(kind);
    if (units === undefined) return this.#parent?.take(kind, amount);
    const wanted = toUnits(kind, amount);
    if (wanted > 0 && wanted > units) throw spent(kind, { wanted: amount, left: this.left(kind) });
    this.#left.set(kind, units - wanted);
  }

  /** Returns what was taken and not spent; a budget that is closed hands it on to its parent. */
  giveBack(kind: BudgetKind, amount: number): void {
    const units = this.#left.get(kind);
    if (units === undefined || this.#isClosed) return this.#parent?.giveBack(kind, amount);
    this.#left.set(kind, units + toUnits(kind, amount));
  }

  /** Corrects what was taken to what was spent. More than was taken leaves a debt, so that nothing further is taken. */
  settle(kind: BudgetKind, { taken, spent: really }: { readonly taken: number; readonly spent: number }): void {
    const units = this.#left.get(kind);
    if (units === undefined || this.#isClosed) return this.#parent?.settle(kind, { taken, spent: really });
    this.#left.set(kind, units + toUnits(kind, taken) - toUnits(kind, really));
  }

  /** Returns what is left to the parent; nothing is taken any more. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const [kind, units] of this.#left)
      this.#parent?.settle(kind, {
        taken: Math.max(0, toAmount(kind, units)),
        spent: Math.max(0, toAmount(kind, -units)),
      });
  }
}

function spent(kind: BudgetKind, { wanted, left }: { wanted: number; left: number }): ToolError {
  const message = `the budget of this session has ${left} ${WHOSE[kind]} left, and ${wanted} are needed`;
  return new ToolError('COST_LIMIT', message, { details: { kind, left, wanted, per: 'budget' } });
}
