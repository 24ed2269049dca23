/** The place of the operator's policy on a node. The daemon's config reads this file at each start, so it imports next to nothing. */
import { join } from 'node:path';

/** The value of `--policy` by which a daemon follows the policy that the operator of its fleet has signed. */
export const FLEET_POLICY = 'fleet';

/** The file that a daemon follows then. */
export const fleetPolicyFile = (stateDir: string): string => join(stateDir, 'fleet/policy/policy.yaml');
