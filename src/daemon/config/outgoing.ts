import { outgoingProxyIn } from '../../sandbox/egress/outgoing-proxy.ts';
import type { Environment } from '../user-dirs.ts';
import { ConfigError } from './config-error.ts';

/** The member of the config for the proxy of the network outside that the environment names, if it does. Throws ConfigError. */
export function toOutgoing(env: Environment) {
  try {
    const outgoing = outgoingProxyIn(env);
    return outgoing && { outgoing };
  } catch (error) {
    throw new ConfigError(`${(error as Error).message}; start the daemon without it if it is not needed`);
  }
}
