/** How a tool whose effects stand by themselves is called without those that the policy denies; see pipeline/separate.ts. */
import type { Code } from '../errors.ts';

/** Both functions run in the gateway. */
export interface Separable<Input, Output> {
  /** The input without those targets of `effects`; undefined where such a call is to be denied whole. */
  without(input: Input, denied: ReadonlySet<string>): Input | undefined;
  /** The output of the rest with what was denied. */
  withDenied(output: Output, denied: readonly DeniedTarget[]): Output;
}

/** A target that the policy denied, in the words of its refusal. */
export interface DeniedTarget {
  readonly path: string;
  readonly code: Code;
  readonly message: string;
}
