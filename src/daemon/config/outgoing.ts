import { type OutgoingProxy, outgoingProxyIn } from '../../sandbox/egress/outgoing-proxy.ts';
import type { Environment } from '../user-dirs.ts';
import { ConfigError } from './config-error.ts';

/** The proxy of the network outside, as the environment names it; undefined without one. Throws ConfigError. */
export function toOutgoing(env: Environment): OutgoingProxy | undefined {
  try {
    return outgoingProxyIn(env);
  } catch (error) {
    throw new ConfigError(`${(error as Error).message}; start the daemon without it if it is not needed`);
  }
}
