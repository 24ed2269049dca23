/** Amounts of money in connector files: `0.3`, `${input.amount}/100`, `${input.amount}*0.01 + 0.3`. */

/** An amount that may depend on a parameter. */
export interface Amount {
  readonly fixed: number;
  readonly parameter?: string | undefined;
  readonly factor: number;
}

const FORM = /^(?:\$\{input\.([A-Za-z]\w{0,63})\}\s*(?:([/*])\s*(\d+(?:\.\d+)?))?)?\s*(?:\+?\s*(\d+(?:\.\d+)?))?$/;

/** Throws an Error that says which forms there are. */
export function parseAmount(given: number | string): Amount {
  if (typeof given === 'number') return { fixed: given, factor: 0 };
  const found = given.trim() === '' ? null : FORM.exec(given.trim());
  if (!found) throw new Error(`${given}: an amount is a number, or \${input.NAME}, with /N or *N, and + N`);
  const [, parameter, operator, number = '1', fixed = '0'] = found;
  const factor = operator === '/' ? 1 / Number(number) : Number(number);
  if (!Number.isFinite(factor)) throw new Error(`${given}: divides by 0`);
  return { fixed: Number(fixed), factor, parameter };
}

/** The amount for a call, in dollars. */
export function amountOf({ fixed, parameter, factor }: Amount, input: Readonly<Record<string, unknown>>): number {
  const value = parameter === undefined ? 0 : Number(input[parameter] ?? 0);
  return fixed + value * factor;
}
