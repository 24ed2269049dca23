/** The options of a WebSocket listener that come from the protocol. */
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { TcpAddress } from '../transport/tcp.ts';
import type { WebSocketOptions } from '../transport/websocket.ts';
import { toBytes } from './peer.ts';

export function webSocketOptions(
  address: TcpAddress,
  isToken: WebSocketOptions['isToken'],
  { limits, powers }: { limits: Limits; powers: Powers },
): WebSocketOptions {
  const { frameBytesMax } = limits;
  const message = `the message is longer than ${frameBytesMax} bytes, which is the maximum`;
  const error = new RpcError('FRAME_TOO_LARGE', message, { max: frameBytesMax }).toWire();
  return {
    ...address,
    limits,
    powers,
    frameBytesMax,
    isToken,
    tooLarge: (encoding) => toBytes({ id: null, error }, { framing: 'message', encoding }, frameBytesMax),
  };
}
