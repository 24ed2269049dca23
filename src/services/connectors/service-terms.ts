/** Credentials of services, as the definitions of their tools tell them. */
import type { ToolAuth } from '../../tools/connected.ts';
import type { Tool } from '../../tools/tool.ts';
import type { Auth } from './file.ts';

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
