/** Delegated sessions: their authority is their parent's, narrowed, and never more than that is at the moment. */
import type { CallParent } from '../../base/call.ts';
import type { Budget } from '../../pipeline/budget.ts';
import type { DoorHolder } from '../../pipeline/stage.ts';

/** A session, as far as the chain of those that passed authority on needs it. */
interface Delegated {
  readonly options: {
    readonly id: string;
    readonly name?: string | undefined;
    readonly principal: string;
    readonly workspace: string;
    readonly delegation?: Delegation<Delegated> | undefined;
  };
}

/** What makes a session part of another one. */
export interface Delegation<Parent extends Delegated> {
  readonly parent: Parent;
  /** The calls and tokens that lead to the session, the outermost first. */
  readonly chain: readonly CallParent[];
  /** What the session may spend, taken out of its parent's. */
  readonly budget: Budget;
  /** Patterns of the tools' names that are passed on; all of the parent's when absent. */
  readonly tools?: readonly string[] | undefined;
  /** Built-in names or files of policies that narrow the parent's. */
  readonly policies: readonly string[];
  /** Names of modes that narrow as well. */
  readonly modes: readonly string[];
  /** Whether the session ends when its parent does; one of a call ends with the call. */
  readonly endsWithParent: boolean;
  /** Whether answers at the parent's doors count for the session, and its own for the parent. */
  readonly sharesDoors: boolean;
}

/** How a session came about, for records. */
export const chainOf = ({ options: { delegation } }: Delegated): readonly CallParent[] => delegation?.chain ?? [];

/** The session whose answers at doors count for this one. */
export function doorsOf({ options }: Delegated): DoorHolder {
  const { delegation } = options;
  if (delegation?.sharesDoors) return doorsOf(delegation.parent);
  const { id: sessionId, name: sessionName, principal, workspace } = options;
  return { sessionId, sessionName, principal, workspace, isDelegated: delegation !== undefined };
}

/** The session whose limits on rates and costs count for this one too: the outermost of the chain. */
export function accountOf({ options }: Delegated): string {
  let { id, delegation } = options;
  while (delegation) ({ id, delegation } = delegation.parent.options);
  return id;
}
