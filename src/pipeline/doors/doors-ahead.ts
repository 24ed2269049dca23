/** Says what a command would meet outside of its sandbox, as far as its words show it. Pure. */
import type { Decision } from '../../base/call.ts';
import { type Destination, mayAsk, type NetworkLayer, refusedName } from '../../policy/network.ts';
import type { ParsedCommand } from '../../policy/question.ts';
import type { Policy } from '../../policy/schema.ts';
import { hostsOfWords } from '../../policy/shell/hosts-of-words.ts';
import { asksOf, networkOf } from '../execute/bounds.ts';
import { DENIALS_MAX } from '../execute/denials.ts';

export interface DoorAhead {
  /** host:port */
  readonly target: string;
  readonly decision: Decision;
}

/** What happens when the command connects to the first hosts that its words name. */
export function doorsAhead({ commands }: ParsedCommand, policy: Policy): DoorAhead[] {
  const layers = networkOf(policy);
  const asks = asksOf(policy);
  return hostsOfWords(commands)
    .slice(0, DENIALS_MAX)
    .map((to) => ({
      target: `${to.host}:${to.port}`,
      decision: layers === undefined ? 'deny' : atDoor(to, layers, asks),
    }));
}

function atDoor(to: Destination, layers: readonly NetworkLayer[], asks: readonly boolean[]): Decision {
  if (refusedName(layers, to) === undefined) return 'allow';
  return mayAsk({ layers, asks }, to) ? 'ask' : 'deny';
}
