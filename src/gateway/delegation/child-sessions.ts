/** Sessions of sub-agents: each is delegated by the session whose call started the sub-agent, and ends with that call. */

import { RpcError, ToolError } from '../../base/errors.ts';
import { runBatch } from '../../pipeline/batch/batch.ts';
import { BatchTimeline } from '../../pipeline/batch/timeline.ts';
import { Budget } from '../../pipeline/budget.ts';
import type { ChildSession, ChildTerms, TurnCall, TurnResult } from '../../pipeline/execute/child-session.ts';
import type { Call } from '../../pipeline/stage.ts';
import { isAmong } from '../../policy/modes.ts';
import { runsBy } from '../../tools/runs.ts';
import { messageText } from '../../wire/protocol/message-text.ts';
import { callUntil } from '../call-until.ts';
import type { LocalOpening, LocalSession } from '../local-sessions.ts';
import type { Session } from '../session.ts';
import { toolList } from '../tool-list.ts';
import { chainOf, type Delegation } from './delegation.ts';

/** Opens a session of this process, as the gateway does. Throws RpcError. */
export type OpenSession = (opening: LocalOpening) => LocalSession;

/** Opens a session below the one that made the call. Throws COST_LIMIT, INPUT_INVALID, RATE_LIMITED. */
export function openChild(
  parent: Session,
  { id: callId, parents, name }: Pick<Call, 'id' | 'parents' | 'name'>,
  { terms, open }: { terms: ChildTerms; open: OpenSession },
): ChildSession {
  const { principal, limits, delegation: above, toolset } = parent.options;
  const depth = chainOf(parent).length;
  if (depth >= limits.delegationDepthMax)
    throw new ToolError('RATE_LIMITED', `authority was passed on ${depth} times, which is the maximum`);
  const budget = new Budget(terms.budget, above?.budget);
  const tool = toolset.get(name)?.tool.name ?? name;
  const delegation: Delegation<Session> = {
    parent,
    chain: [...parents, { callId, tool }],
    budget,
    policies: terms.policies,
    modes: terms.modes,
    endsWithParent: false,
    // Under a stricter policy it has none of the answers, and asks for itself.
    sharesDoors: terms.policies.length + terms.modes.length === 0,
  };
  try {
    const local = open({
      client: { name: 'sub-agent', version: terms.agent },
      identity: { role: 'agent', principal, delegation },
      uid: undefined,
      has: (it) =>
        terms.tools.every((patterns) => isAmong(patterns, it.name)) && (terms.delegates || !runsBy(it, 'agents')),
      onUpdate: (call, state) => terms.onState(call.id, call.name, state),
    });
    return toChild(local, { budget, terms, callId });
  } catch (error) {
    budget.close();
    if (error instanceof RpcError) throw new ToolError('INPUT_INVALID', error.message);
    throw error;
  }
}

interface ChildParts {
  readonly budget: Budget;
  readonly terms: ChildTerms;
  /** The call that the session belongs to. */
  readonly callId: string;
}

function toChild(local: LocalSession, { budget, terms: { listsAll }, callId }: ChildParts): ChildSession {
  const { session } = local;
  return {
    id: session.options.id,
    budget,
    get sawUntrusted() {
      return session.sawUntrusted;
    },
    tools: (format) => toolList(session, { format, tools: listsAll ? 'all' : 'default' }).tools,
    run: (calls, signal) => runTurn(session, calls, { signal, parentCallId: callId }),
    abort: (callId, reason) => void session.abort(callId, reason),
    async end(reason) {
      await local.end(reason);
      budget.close();
    },
  };
}

/** Runs calls as a batch. Their inputs hold no references, since a model's texts mean what they say. */
async function runTurn(
  session: Session,
  calls: readonly TurnCall[],
  { signal, parentCallId }: { readonly signal: AbortSignal; readonly parentCallId: string },
): Promise<TurnResult[]> {
  const { limits, powers, toolset } = session.options;
  const inputs = new Map(calls.map(({ callId, input }) => [callId, input]));
  const { results } = await runBatch(
    calls.map(({ callId, tool }) => ({ id: callId, tool, input: {} })),
    { options: {}, signal },
    {
      limits,
      powers,
      timeline: new BatchTimeline(powers),
      onResult() {},
      canonical: (tool) => toolset.get(tool)?.tool.name ?? tool,
      followsOf: (tool) => toolset.get(tool)?.tool.dependencies ?? [],
      refuse: ({ id, tool }, error) => session.refusal(tool, inputs.get(id), { options: { callId: id }, error }),
      run: ({ id, tool }, _, control) =>
        callUntil(session, { tool, input: inputs.get(id), options: { callId: id, parentCallId } }, control),
    },
  );
  return results.map((result) => {
    const isUntrusted = toolset.get(result.tool)?.tool.untrusted === true;
    return { result, text: messageText(result, isUntrusted) };
  });
}
