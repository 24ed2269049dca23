/** Calls that a program or a sub-agent makes: calls with their own records, ended together with what makes them. */
import type { ToolResult } from '../base/call.ts';
import type { Call, ChildCall, Handler } from '../pipeline/stage.ts';
import { callUntil } from './call-until.ts';
import { type OpenSession, openChild } from './delegation/child-sessions.ts';
import type { Session } from './session.ts';

/** Lets each call make further calls, and have a sub-agent with a session of its own. */
export const withChildCalls =
  (run: Handler, { session, open }: { session(): Session; readonly open: OpenSession }): Handler =>
  (call) =>
    run({
      ...call,
      child: childCallsOf(session(), call),
      openChild: (terms) => openChild(session(), call, { terms, open }),
    });

/** Makes calls on behalf of the program of `parent`. */
function childCallsOf(session: Session, parent: Pick<Call, 'id'>): ChildCall {
  return (tool, input, { signal, span, onState }): Promise<ToolResult> => {
    const options = { callId: session.options.powers.uuid(), parentCallId: parent.id, span };
    return callUntil(session, { tool, input, options }, { signal, onState });
  };
}
