/** Calls that a program makes: calls of its session with their own records, ended together with the program. */
import type { CallOptions, ToolResult } from '../call.ts';
import type { ToolError } from '../errors.ts';
import type { Call, ChildCall, Handler } from '../pipeline/stage.ts';
import type { Session } from './session.ts';

/** Lets each call make further calls. */
export const withChildCalls =
  (run: Handler, session: () => Session): Handler =>
  (call) =>
    run({ ...call, child: childCallsOf(session(), call) });

/** Makes calls on behalf of the program of `parent`. */
function childCallsOf(session: Session, parent: Pick<Call, 'id'>): ChildCall {
  return async (tool, input, { signal, span, onState }): Promise<ToolResult> => {
    const callId = session.options.powers.uuid();
    const options: CallOptions = { callId, parentCallId: parent.id, ...(span && { span }) };
    const cancel = () => session.abort(callId, signal.reason as ToolError);
    const result = session.call(tool, input, options, onState);
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
    return result.finally(() => signal.removeEventListener('abort', cancel));
  };
}
