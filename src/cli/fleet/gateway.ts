/** `ringfence gateway`: runs a gateway until a signal ends it. */
import { join } from 'node:path';
import { defaultLimits as limits } from '../../base/limits.ts';
import { systemPowers } from '../../base/powers.ts';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import { readCredential } from '../../fleet/credential.ts';
import { FleetError } from '../../fleet/fleet-error.ts';
import { FleetGateway } from '../../fleet/placed/gateway.ts';
import { SocketError } from '../../wire/transport/unix-socket.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, printJson, say, UsageError } from '../output.ts';
import { sayLog, untilSignal } from './running.ts';

export interface GatewayFlags {
  readonly json?: boolean;
  readonly fleet: string;
  readonly socket?: string;
  readonly state?: string;
  readonly label?: readonly string[];
}

export async function gateway({ fleet: url, socket, label = [], json, ...flags }: GatewayFlags, { env }: CliCaller) {
  const { stateDir } = findUserDirs(flags, env);
  const credential = { ...readCredential(join(stateDir, 'fleet/credential.json')), url };
  if (credential.role !== 'gateway')
    throw new FleetError(`this machine is a ${credential.role}; invite it with: ringfence fleet invite NAME --gateway`);
  const { socket: path, mcpSocket } = findUserDirs({ socket: socket ?? join(stateDir, 'gateway.sock') }, env);
  const ended = untilSignal();
  try {
    const powers = systemPowers(sayLog);
    await using _ = await FleetGateway.start({ credential, socket: path, mcpSocket, labels: label, limits, powers });
    if (json) printJson({ ready: true, socket: path, mcpSocket });
    else say(harmless(`the gateway serves clients at ${path}; Ctrl-C ends it`));
    await ended;
  } catch (error) {
    if (error instanceof SocketError) throw new UsageError(harmless(error.message));
    throw error;
  }
  return EXIT.OK;
}
