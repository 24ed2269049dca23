/** `ringfence fleet init` makes a fleet; `fleet hub` runs its collector. */
import { existsSync, mkdirSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { replaceFile } from '../../base/disk.ts';
import { defaultLimits as limits } from '../../base/limits.ts';
import { systemPowers } from '../../base/powers.ts';
import { serverConfig } from '../../fleet/bus-config.ts';
import type { Credential } from '../../fleet/credential.ts';
import { fleetFiles, readFleetFile, writeRoster } from '../../fleet/folder.ts';
import { Hub } from '../../fleet/hub.ts';
import { memberKeys } from '../../fleet/nats.ts';
import { createOperatorKeys } from '../../fleet/signing.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, print, printJson, say, UsageError } from '../output.ts';
import { createCertificates } from './certificates.ts';
import { type FleetFlags, folderOf } from './operator.ts';
import { sayLog, untilSignal } from './running.ts';

const HOST = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/** Makes the keys, certificates and configs of a fleet. */
export async function fleetInit(
  { host, port, name, ...flags }: FleetFlags & { host: string; port: number; name: string },
  caller: CliCaller,
): Promise<number> {
  const folder = folderOf(flags, caller);
  const files = fleetFiles(folder);
  if (!HOST.test(host) || isIP(host) !== 0)
    throw new UsageError(harmless(`--host must be a name, since certificates are for names, not ${host}`));
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new UsageError(`--port must be 1 to 65535, not ${port}`);
  if (existsSync(files.operatorKey)) throw new UsageError(harmless(`${folder} holds a fleet already`));
  const { privateKey, publicKey } = createOperatorKeys();
  const [operator, hub] = [await memberKeys(), await memberKeys()];
  for (const it of ['operator', 'bus', 'hub']) mkdirSync(join(folder, it), { recursive: true, mode: 0o700 });
  await createCertificates(name, host, files);
  const ca = readFleetFile(join(files.bus, 'ca.pem'));
  const credential = {
    ringfenceFleet: 1,
    fleet: name,
    url: `nats://${host}:${port}`,
    ca,
    operatorKey: publicKey,
  } as const;
  const write = (path: string, role: 'operator' | 'hub', seed: string) => {
    const whole: Credential = { ...credential, name: role, role, seed };
    replaceFile(path, JSON.stringify(whole));
  };
  write(files.operatorCredential, 'operator', operator.seed);
  write(files.hubCredential, 'hub', hub.seed);
  replaceFile(join(files.bus, 'nats-server.conf'), serverConfig({ host, port, folder: files.bus }));
  const member = (role: 'operator' | 'hub', key: string) => ({ name: role, role, key, labels: [] });
  const members = [member('operator', operator.publicKey), member('hub', hub.publicKey)];
  writeRoster(folder, { fleet: name, version: 1, members, invitations: [] }, privateKey);
  // The last file: without it the folder holds no fleet, and `init` can be run again.
  replaceFile(files.operatorKey, privateKey);
  if (flags.json) printJson({ fleet: name, folder, url: credential.url });
  else print(harmless(nextSteps(folder)));
  return EXIT.OK;
}

const nextSteps = (folder: string): string => `made a fleet in ${folder}
1. run the bus:      nats-server -c ${folder}/bus/nats-server.conf
2. run the hub:      ringfence fleet hub
3. invite a machine: ringfence fleet invite NAME
The folder ${folder}/operator signs everything that nodes obey: keep it on your own machine, and have a copy.`;

/** Runs the hub until a signal ends it. */
export async function fleetHub(flags: FleetFlags, caller: CliCaller): Promise<number> {
  const ended = untilSignal();
  await using _ = await Hub.start(folderOf(flags, caller), limits, systemPowers(sayLog));
  if (flags.json) printJson({ ready: true });
  else say('the hub collects the records of all nodes; Ctrl-C ends it');
  await ended;
  return EXIT.OK;
}
