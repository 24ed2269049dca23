import type { Denial } from '../../base/call.ts';
import type { RunResult } from '../../hosts/runs.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import type { OpeningParts } from '../doors/openings.ts';
import { type Attempt, failed, type Outcome, succeeded, trafficOf } from '../outcome.ts';
import type { ClearedCall } from '../stage.ts';
import { denialsOf, warningsOf, withDenials } from './denials.ts';
import { errorOf } from './read-only-run.ts';
import { withheldOf } from './withheld.ts';

/** The outcome of a run that gave a result. */
export function ranOutcome(
  ran: RunResult,
  call: ClearedCall,
  {
    attempt,
    network,
    hints,
    parts,
  }: {
    attempt: Attempt;
    network?: readonly NetworkLayer[] | undefined;
    hints?: readonly Denial[];
    parts: Pick<OpeningParts, 'outsideProblem'>;
  },
): Outcome {
  const { result, pid, egress } = ran;
  const denied = denialsOf(ran, hints);
  const withheld = withheldOf(ran, network, (it) => parts.outsideProblem(it) === undefined);
  const brought = {
    ...attempt,
    hostPid: pid,
    usage: result.usage,
    ...(denied.length > 0 && { denied }),
    ...trafficOf(egress),
    withheld,
    warnings: warningsOf(ran),
  };
  return result.ok ? succeeded(result.data, brought) : failed(withDenials(errorOf(result, call), denied), brought);
}
