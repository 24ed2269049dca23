/** Authenticates a hello: by its token, or by the file mode of the Unix socket. */

import { RpcError } from '../base/errors.ts';
import type { Params } from '../wire/protocol/messages.ts';
import type { Channel } from '../wire/transport/transport.ts';
import type { Fence } from './connections/fence.ts';
import type { Delegation } from './delegation/delegation.ts';
import type { Session } from './session.ts';

/** The identity that a token proves. */
export interface Identity {
  readonly role: 'agent' | 'operator';
  readonly principal: string;
  /** Built-in name or file of the policy that narrows this principal's permissions. */
  readonly policy?: string | undefined;
  /** Set for a session that a fleet has placed here. */
  readonly fence?: Fence;
  /** Set for a token that a session passed on. */
  readonly delegation?: Delegation<Session>;
}

/** The identity that a token proves; undefined for an unknown token. */
export type Identify = (token: string) => Identity | undefined;

/**
 * The identity of a connection. Throws UNAUTHENTICATED for an unknown token, for two tokens of different identities, and for a role that
 * the token does not give.
 */
export function authenticate(channel: Channel, { token, role }: Params<'hello'>, identify: Identify): Identity {
  const [own, opened] = [token, channel.bearer].map((it) => identified(it, identify));
  const identity = own ?? opened;
  // Otherwise a holder of two tokens could choose the more permissive policy.
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

/** The principal of a connection without a token: the user of a Unix socket, whose file mode controls access. */
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
