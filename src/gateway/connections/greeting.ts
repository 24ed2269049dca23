/** The answer to `hello`. */
import type { Limits } from '../../base/limits.ts';
import type { ClientLink } from '../client-link.ts';
import type { StatusParts } from '../operator/status-parts.ts';
import { PROTOCOL } from '../parse-params.ts';
import { toolNames } from '../tool-list.ts';
import type { Fences } from './fences.ts';

type GreetingParts = Pick<StatusParts, 'version' | 'confinement'> & {
  readonly limits: Limits;
  readonly fences: Pick<Fences, 'toldOf'>;
};

/** `resumed` holds the messages that waited for the client of a resumed session. */
export function greeting(
  { session, resumeMs, subscriptions }: ClientLink,
  { version, confinement, limits, fences }: GreetingParts,
  resumed?: object,
): object {
  const { id, secret, role, workspace, mode } = session.options;
  const { name: policy } = session.policy();
  const placed = fences.toldOf(session.options);
  return {
    protocol: PROTOCOL,
    server: { name: 'ringfence', version },
    session: {
      id,
      secret,
      role,
      workspace,
      policy,
      mode,
      toolset: toolNames(session),
      resumeMs,
      placed,
      resumed: resumed && { ...resumed, subscriptions: subscriptions.length },
    },
    confinement,
    limits: {
      frameBytesMax: limits.frameBytesMax,
      fileBytesMax: limits.fileBytesMax,
      callTimeoutMs: limits.callTimeoutMs,
      sessionQueueMax: limits.sessionQueueMax,
    },
  };
}
