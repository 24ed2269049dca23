/** Messages on the bus as JSON. */

import { jsonOr } from '../base/text/json.ts';
import type { Client } from '../client/client.ts';

export const toWire = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

/** The value of a message; undefined if it is not JSON. */
export const fromWire = (data: Uint8Array): unknown =>
  jsonOr(Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString(), undefined);

/** The part of the daemon's client that the link needs; it has the role of an operator. */
export type DaemonClient = Pick<Client, 'request' | 'notifications'>;
