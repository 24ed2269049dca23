/** A call of a session that ends with something else: with the program, the sub-agent or the batch that makes it. */

import type { CallOptions, CallState, ToolResult } from '../base/call.ts';
import type { ToolError } from '../base/errors.ts';
import { onAbort } from '../base/powers.ts';
import type { Session } from './session.ts';

interface NamedCall {
  readonly tool: string;
  readonly input: unknown;
  readonly options: CallOptions & { readonly callId: string };
}

/** Makes a call that ends with the ToolError that aborts the signal; never rejects. */
export async function callUntil(
  session: Session,
  { tool, input, options }: NamedCall,
  { signal, onState }: { readonly signal: AbortSignal; onState(state: CallState): void },
): Promise<ToolResult> {
  const result = session.call(tool, input, options, onState);
  using _ = onAbort(signal, () => session.abort(options.callId, signal.reason as ToolError));
  return await result;
}
