/** What crosses between a compartment host and the thread that runs its plugins: plain data. */
import type { PluginCode } from '../src/plugin-code.ts';

export type ToThread =
  | {
      readonly call: {
        readonly id: number;
        readonly plugin: PluginCode;
        /** All three are JSON. */
        readonly input: string;
        readonly guest: string;
        readonly grant: string;
      };
    }
  /** What was asked under an id, and the answer. */
  | { readonly answer: readonly [id: string, answer: string] }
  /** Answered when nothing of the call before it runs any more. */
  | { readonly settle: number };

export type FromThread =
  /** What the guest of a call sent. */
  | { readonly id: number; readonly sent: [operation: string, a?: string, b?: string, c?: string] }
  | { readonly id: number; readonly settled: true };
