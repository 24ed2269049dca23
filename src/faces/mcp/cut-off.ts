/** The result of an MCP call whose daemon or node is gone. The bridge loads this file at each start, so it imports nothing. */

export interface CutOff {
  readonly message: string;
  /** What the model should do now. */
  readonly advice: string;
  /** `none`: the call has certainly not begun. `unknown`: it may have run. */
  readonly outcome: 'none' | 'unknown';
  /** Whether the client opened with `initialize`; others expect a type of result. */
  readonly isLegacy: boolean;
}

export function cutOff({ message, advice, outcome, isLegacy }: CutOff): object {
  const error = { code: 'HOST_CRASHED', category: 'SYSTEM', layer: 'daemon', details: { outcome } };
  return {
    content: [{ type: 'text', text: `HOST_CRASHED: ${message}\n${advice}` }],
    isError: true,
    _meta: { 'ringfence/call': { error } },
    ...(!isLegacy && { resultType: 'complete' }),
  };
}
