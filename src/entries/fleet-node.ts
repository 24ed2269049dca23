/**
 * The process that links a daemon to its fleet. It is apart from the daemon, so that what reads messages of the bus shares
 * no memory with what decides calls. The daemon starts it, and it ends with the daemon.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { establishPerimeter } from '../../workers/perimeter.ts';
import { defaultLimits } from '../base/limits.ts';
import { type Log, systemPowers } from '../base/powers.ts';
import { createClient } from '../client/client.ts';
import { readCredential } from '../fleet/credential.ts';
import { FleetError } from '../fleet/fleet-error.ts';
import { memberKeys } from '../fleet/nats.ts';
import { FleetNode } from '../fleet/node.ts';
import type { ProcessMessage } from '../fleet/process.ts';

/** The channel to the daemon, which follows the standard streams. */
const CHANNEL_FD = 3;

const { values: flags } = parseArgs({
  options: {
    state: { type: 'string' },
    socket: { type: 'string' },
    'mcp-socket': { type: 'string' },
    url: { type: 'string' },
  },
});
process.once('disconnect', () => process.exit(0));
establishPerimeter(CHANNEL_FD);

const tell = (message: ProcessMessage): void => void process.send?.(message);

/** Errors don't survive the channel; their messages do. */
const plain = (fields: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).map(([name, it]) => [name, it instanceof Error ? it.message : it]));

const log = Object.fromEntries(
  (['debug', 'info', 'warn', 'error'] as const).map((level) => [
    level,
    (fields: object, text: string) => tell({ level, fields: plain(fields), text }),
  ]),
) as unknown as Log;

try {
  const { state: stateDir = '', socket = '', 'mcp-socket': mcpSocket = '', url = '' } = flags;
  const credential = { ...readCredential(join(stateDir, 'fleet/credential.json')), url };
  if (credential.role !== 'node') throw new FleetError(`the credential is that of a ${credential.role}, not of a node`);
  await memberKeys(credential.seed);
  tell({ ready: credential.name });
  const token = readFileSync(join(stateDir, 'operator.token'), 'utf8').trim();
  const daemon = await createClient({ socket, role: 'operator', token, name: 'ringfence-fleet' });
  const [limits, powers] = [defaultLimits, systemPowers(log)];
  await FleetNode.start({ credential, stateDir, daemon, socket, mcpSocket, limits, powers });
} catch (error) {
  tell({ failed: (error as Error).message, isExpected: error instanceof FleetError });
  process.exitCode = 1;
  process.disconnect?.();
}
