/** Connectors that an operator added. */
import type { Limits } from '../../base/limits.ts';
import { PinError } from '../pinned/pin-error.ts';
import { PinFolder } from '../pinned/pin-folder.ts';
import { type Connector, toConnector } from './connector.ts';

/** Factor for a file of certificates beside the connector's own. */
const FILES = 2;

export const pinnedConnectors = (stateDir: string, { connectorsMax, connectorFileBytesMax }: Limits): PinFolder =>
  new PinFolder(stateDir, {
    kind: 'connector',
    max: { count: connectorsMax, limit: 'connectorsMax' },
    bytesMax: connectorFileBytesMax * FILES,
  });

/** Reads a pinned connector and checks its hash. Throws PinError. */
export function readPinned(pins: PinFolder, name: string, limits: Limits): Connector {
  const connector = toConnector(pins.read(name), limits, name);
  if (connector.name !== name) throw new PinError([`${pins.path}/${name}.json: holds the connector ${connector.name}`]);
  return connector;
}
