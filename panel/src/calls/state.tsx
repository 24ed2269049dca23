/** How a call is, as a shape and a word. Red is only for what failed. */
import { Icon, type IconName } from '../parts/icon.tsx';
import { type KnownCall, stateOf } from './all-calls.ts';

/** Codes of errors by which policy, a limit or a person refused a call, which then did nothing. */
const REFUSALS =
  /^(?:ACCESS_DENIED|SENSITIVE_FILE|POLICY_DENIED|APPROVAL_\w+|TOOL_DISABLED|SANDBOX_DENIED|AUTH_REQUIRED|RATE_LIMITED|QUEUE_FULL|COST_LIMIT)$/;

type Shown = Pick<KnownCall, 'state'> & { readonly code?: string | undefined; readonly exitCode?: number | undefined };

export const isRefused = ({ state, code }: Shown): boolean =>
  state.status === 'rejected-by-user' || (state.status === 'error' && code !== undefined && REFUSALS.test(code));

const SIGNS: Readonly<Record<Shown['state']['status'], readonly [icon: IconName, kind: string]>> = {
  queued: ['dots', ''],
  'blocked-on-user': ['clock', 'waits'],
  'in-progress': ['play', 'runs'],
  done: ['check', ''],
  error: ['cross', 'bad'],
  cancelled: ['stop', ''],
  'rejected-by-user': ['barred', ''],
};

export function State({ call }: { call: Shown }) {
  const refused = isRefused(call);
  const exited = call.state.status === 'done' && call.exitCode !== undefined;
  const [icon, kind] = refused ? (['barred', ''] as const) : SIGNS[exited ? 'error' : call.state.status];
  return (
    <span class={`state ${kind}`} title={call.code}>
      <Icon name={icon} />
      {exited ? `exit ${call.exitCode}` : refused && call.state.status === 'error' ? 'refused' : stateOf(call)}
    </span>
  );
}
