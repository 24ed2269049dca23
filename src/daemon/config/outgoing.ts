import type { Limits } from '../../base/limits.ts';
import { outgoingProxyIn } from '../../sandbox/egress/outgoing-proxy.ts';
import { isStored, readStored } from '../../services/secrets/secret-files.ts';
import type { Environment } from '../user-dirs.ts';
import { ConfigError } from './config-error.ts';

/** The secret that is the password of the proxy, where the environment names its user alone. */
const SECRET = 'outgoing-proxy';

/** The member of the config for the proxy of the network outside that the environment names, if it does. Throws ConfigError. */
export function toOutgoing(env: Environment, { stateDir }: { readonly stateDir: string }, limits: Limits) {
  try {
    const stored = () => (isStored(stateDir, SECRET) ? readStored(stateDir, SECRET, limits) : undefined);
    const outgoing = outgoingProxyIn(env, stored);
    return outgoing && { outgoing };
  } catch (error) {
    throw new ConfigError(`${(error as Error).message}; start the daemon without it if it is not needed`);
  }
}
