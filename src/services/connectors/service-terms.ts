/** Credentials and prices of services, as the definitions of their tools tell them. */
import type { ToolAuth, ToolCost } from '../../tools/connected.ts';
import type { Tool } from '../../tools/tool.ts';
import type { Auth, Billing } from './file.ts';

const TYPES: Readonly<Record<Exclude<Auth['kind'], 'none'>, ToolAuth['type']>> = {
  bearer: 'bearer_token',
  header: 'api_key',
  query: 'api_key',
  path: 'api_key',
  basic: 'basic_auth',
  oauth2_client: 'oauth',
};

/** The first credentials of a service. Whether all of them are there is looked up each time. */
export function authOf(auth: readonly Auth[], assertConfigured: () => void): Pick<Tool, 'auth'> {
  const needed = auth.find((it) => it.kind !== 'none');
  if (!needed) return {};
  const { kind, secret: configKey, setup } = needed;
  const fixed = { type: TYPES[kind], required: true as const, configKey, setupUrl: setup };
  return {
    auth: () => {
      try {
        assertConfigured();
        return { ...fixed, status: 'configured' };
      } catch {
        // ToolError AUTH_REQUIRED.
        return { ...fixed, status: 'missing' };
      }
    },
  };
}

/** The price of a call by its amounts in dollars; texts are amounts that depend on the input. */
export function costTermsOf(amounts: readonly (number | string)[], billing: Billing = {}): ToolCost {
  const fixed = amounts.filter((it) => typeof it === 'number');
  const estimatedCost = fixed.reduce((sum, it) => sum + it, 0);
  const { url: billingUrl, freeCalls: freeTierLimit } = billing;
  const isFree = amounts.length === fixed.length && estimatedCost === 0 && billingUrl === undefined;
  return {
    model: isFree ? 'free' : 'usage_based',
    ...(estimatedCost > 0 && { estimatedCost }),
    ...(billingUrl !== undefined && { billingUrl }),
    ...(freeTierLimit !== undefined && { freeTierLimit }),
  };
}
