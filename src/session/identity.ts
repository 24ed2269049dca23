/** Who says hello: the bearer of a token, or whoever the mode of the socket lets in. */
import { RpcError } from '../errors.ts';
import type { Params } from '../protocol/messages.ts';
import type { Channel } from '../transport/transport.ts';

/** Who a token says that its bearer is. */
export interface Identity {
  readonly role: 'agent' | 'operator';
  readonly principal: string;
  /** Built-in name or file of the policy that narrows what this principal may do. */
  readonly policy?: string;
}

/** Whose token it is, if anybody's. */
export type Identify = (token: string) => Identity | undefined;

/** Throws UNAUTHENTICATED for a token that is nobody's, two of different bearers, and a role that the token does not give. */
export function authenticate(channel: Channel, { token, role }: Params<'hello'>, identify: Identify): Identity {
  const [own, opened] = [token, channel.bearer].map((it) => identified(it, identify));
  const identity = own ?? opened;
  // Else whoever has two could choose the policy that narrows less.
  if (own && opened && (own.principal !== opened.principal || own.role !== opened.role))
    throw new RpcError('UNAUTHENTICATED', 'hello.token and Authorization: Bearer are of different bearers');
  if (!channel.authenticated && identity === undefined) {
    throw new RpcError('UNAUTHENTICATED', 'a WebSocket needs a token: as Authorization: Bearer, or as hello.token');
  }
  if (role === 'operator' && identity?.role !== 'operator') {
    throw new RpcError(
      'UNAUTHENTICATED',
      'role operator needs the operator token; the CLI reads it from the state directory',
    );
  }
  return identity ?? { role: 'agent', principal: principalOf(channel) };
}

/** Of one without a token: a Unix socket's, where the mode of the file lets in. */
export function principalOf(channel: Pick<Channel, 'kind' | 'credentials'>): string {
  if (channel.kind !== 'unix') return 'unknown';
  return `uid:${channel.credentials?.uid ?? process.getuid?.() ?? '?'}`;
}

function identified(token: string | undefined, identify: Identify): Identity | undefined {
  if (token === undefined) return undefined;
  const identity = identify(token);
  if (!identity) throw new RpcError('UNAUTHENTICATED', 'this token is not one of this daemon');
  return identity;
}
