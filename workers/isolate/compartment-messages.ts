/** Messages between a compartment host and the thread that runs its plugins: plain data. */
import type { PluginCode } from '../../src/base/plugin-code.ts';

export type ToThread =
  | {
      readonly call: {
        readonly id: number;
        readonly plugin: PluginCode;
        /** All three are JSON texts. */
        readonly input: string;
        readonly guest: string;
        readonly grant: string;
      };
    }
  /** Id of a request, and its answer. */
  | { readonly answer: readonly [id: string, answer: string] }
  /** Answered when nothing of the previous call runs any more. */
  | { readonly settle: number };

export type FromThread =
  /** A message from the guest of a call. */
  | { readonly id: number; readonly sent: [operation: string, a?: string, b?: string, c?: string] }
  | { readonly id: number; readonly settled: true };
