/** `ringfence costs`: what calls have cost, by tool, principal or day, and how near that is to the limits. */

import { counted } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import type { Answer } from '../../wire/protocol/answers.ts';
import { EXIT, harmless, print, printJson, UsageError } from '../output.ts';

type Costs = Answer<'costs.read'>;

/** Ten years: more than any configuration keeps. */
const DAYS_MAX = 3660;

export interface CostFlags {
  readonly json?: boolean;
  readonly by: 'tool' | 'principal' | 'day';
  readonly days: number;
}

/** Prints sums with the greatest first, days with the newest first. Returns the exit code. */
export async function costs({ json, by, days }: CostFlags, client: Pick<Client, 'request'>): Promise<number> {
  if (!(Number.isInteger(days) && days >= 1 && days <= DAYS_MAX))
    throw new UsageError(`--days must be a whole number from 1 to ${DAYS_MAX}, not ${days}`);
  const answer = await client.request('costs.read', { days });
  if (json) printJson(answer);
  else print(harmless(shown(answer, by, days).join('\n')));
  return EXIT.OK;
}

function shown({ costs: rows, today, lost }: Costs, by: CostFlags['by'], days: number): string[] {
  const sums = new Map<string, { calls: number; usd: number }>();
  for (const it of rows) {
    const { calls, usd } = sums.get(it[by]) ?? { calls: 0, usd: 0 };
    sums.set(it[by], { calls: calls + it.calls, usd: usd + it.usd });
  }
  const sorted = [...sums].sort(([a, x], [b, y]) => (by === 'day' ? (a < b ? 1 : -1) : y.usd - x.usd));
  const period = days === 1 ? 'today' : `in the last ${days} days`;
  return [
    ...(sorted.length === 0 ? [`no call has cost anything ${period} (UTC)`] : [`${period} (UTC), by ${by}:`]),
    ...sorted.map(([name, { calls, usd }]) => `${inUsd(usd)}  ${counted(calls, 'call')}  ${name}`),
    ...today.map((it) => `${it.tier} today: ${limitsOf(it)}`),
    ...(lost.calls > 0
      ? [`${inUsd(lost.usd)}  of it for ${lost.calls} interrupted calls, as estimated: what they cost is unknown`]
      : []),
  ];
}

function limitsOf({ usd, askAboveUsd, mostUsd, mostUsdPerPrincipal }: Costs['today'][number]): string {
  const limits = [
    ...(askAboveUsd === undefined ? [] : [`asks above $${askAboveUsd}`]),
    ...(mostUsd === undefined ? [] : [`at most $${mostUsd}`]),
    ...(mostUsdPerPrincipal === undefined ? [] : [`at most $${mostUsdPerPrincipal} for each principal`]),
  ];
  return `$${rounded(usd)} (${limits.length === 0 ? 'no limit; see costUsdPerDay in the policy' : limits.join(', ')})`;
}

/** Cents, and for less than a cent as many digits as are booked. */
const rounded = (usd: number): string => (usd === 0 || usd >= 0.01 ? usd.toFixed(2) : usd.toFixed(6));
const inUsd = (usd: number): string => `$${rounded(usd)}`.padStart(12);
