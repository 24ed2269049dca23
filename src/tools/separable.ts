/** How a tool with independent effects is called without those that the policy denies; see pipeline/separate-effects.ts. */
import type { Code } from '../base/errors.ts';

/** Both functions run in the gateway. */
export interface Separable<Input, Output> {
  /** The input without the denied targets; undefined if the call must be denied as a whole. */
  without(input: Input, denied: ReadonlySet<string>): Input | undefined;
  /** Adds the denied targets to the output of the rest. */
  withDenied(output: Output, denied: readonly DeniedTarget[]): Output;
}

/** A target that the policy denied, in the words of its refusal. */
export interface DeniedTarget {
  readonly path: string;
  readonly code: Code;
  readonly message: string;
}
