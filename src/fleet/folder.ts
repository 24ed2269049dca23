/**
 * The folder of a fleet on the operator's machine: `operator/` has the operator's key, `bus/` what nats-server needs, `hub/`
 * what the collector needs. The last two may be moved to other machines; the first one never is.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from '../base/disk.ts';
import type { Limits } from '../base/limits.ts';
import { jsonOr } from '../base/text/json.ts';
import { usersConfig } from './bus-config.ts';
import { FleetError } from './fleet-error.ts';
import { type Roster, readRoster, signRoster } from './roster.ts';
import { publicKeyOf } from './signing.ts';

export const fleetFiles = (folder: string) => ({
  operatorKey: join(folder, 'operator/operator.key'),
  operatorCredential: join(folder, 'operator/credential.json'),
  caKey: join(folder, 'operator/ca.key'),
  roster: join(folder, 'operator/roster.json'),
  bus: join(folder, 'bus'),
  users: join(folder, 'bus/users.conf'),
  pid: join(folder, 'bus/nats-server.pid'),
  hubCredential: join(folder, 'hub/credential.json'),
  hubRoster: join(folder, 'hub/roster.json'),
  hubPolicy: join(folder, 'hub/policy.json'),
  audit: join(folder, 'hub/audit.db'),
});

/** The text of a file of the fleet. Throws FleetError. */
export function readFleetFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new FleetError(`${path} can't be read: ${code}; \`ringfence fleet init\` makes it`);
  }
}

/** The operator's private key and the roster of a fleet. Throws FleetError. */
export function readFleet(folder: string, limits: Limits): { readonly privateKey: string; readonly roster: Roster } {
  const files = fleetFiles(folder);
  const privateKey = readFleetFile(files.operatorKey);
  return { privateKey, roster: readRosterFile(files.roster, publicKeyOf(privateKey), limits).roster };
}

/** The signed roster in a file. Throws FleetError. */
export function readRosterFile(path: string, operatorKey: string, limits: Limits): { roster: Roster; signed: unknown } {
  // Text that is not JSON is reported as an unsigned roster.
  const signed = jsonOr(readFleetFile(path), undefined);
  return { roster: readRoster(signed, operatorKey, limits), signed };
}

/** Signs a roster, and writes it for the hub and as users of the bus. */
export function writeRoster(folder: string, roster: Roster, privateKey: string): void {
  const { roster: path, hubRoster, users } = fleetFiles(folder);
  const text = JSON.stringify(signRoster(roster, privateKey));
  replaceFile(path, text);
  replaceFile(hubRoster, text);
  replaceFile(users, usersConfig(roster));
}
