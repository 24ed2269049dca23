import type * as z from 'zod';
import type { toolInfo } from '../wire/protocol/shapes.ts';

/** The operation of a connector that a call of a tool runs. */
export interface Connected {
  readonly connector: string;
  readonly operation: string;
  /** Hash of the connector's files: another connector's operation is another tool. */
  readonly digest: string;
}

type Told = z.output<typeof toolInfo>;
/** The credentials that a service wants of each call; no agent sees them. */
export type ToolAuth = NonNullable<Told['auth']>;
export type ToolCost = NonNullable<Told['cost']>;

/** For tools of services. */
export interface ServiceTerms {
  auth?(): ToolAuth;
  readonly cost?: ToolCost;
}

/** The price of a call by its amounts in dollars; texts are amounts that depend on the input. */
export function costTermsOf(
  amounts: readonly (number | string)[],
  billing: { readonly url?: string | undefined; readonly freeCalls?: number | undefined } = {},
): ToolCost {
  const fixed = amounts.filter((it) => typeof it === 'number');
  const estimatedCost = fixed.reduce((sum, it) => sum + it, 0);
  const { url: billingUrl, freeCalls: freeTierLimit } = billing;
  const isFree = amounts.length === fixed.length && estimatedCost === 0 && billingUrl === undefined;
  return {
    model: isFree ? 'free' : 'usage_based',
    ...(estimatedCost > 0 && { estimatedCost }),
    billingUrl,
    freeTierLimit,
  };
}
