/** Plain data between the gateway and the egress proxy: what crosses its descriptor 3, in frames of docs/protocol.md's codec. */
import type { Limits } from '../limits.ts';
import type { NetworkLayer } from '../policy/network.ts';

export type ToProxy =
  | { readonly setup: { readonly limits: Limits } }
  /** A command that may connect; its listener comes from the command itself, with the token. */
  | { readonly open: { readonly token: string; readonly layers: readonly NetworkLayer[] } }
  | { readonly close: { readonly token: string } };

export type FromProxy =
  | { readonly ready: true }
  | { readonly opened: string }
  | { readonly closed: { readonly token: string; readonly report: EgressReport } };

/** What a command did with its network. */
export interface EgressReport {
  /** Whether its listener came: without it, the command reached nothing. */
  readonly listened: boolean;
  readonly connected: readonly { readonly target: string; readonly count: number }[];
  readonly denied: readonly EgressDenial[];
}

export interface EgressDenial {
  /** `host:port`. */
  readonly target: string;
  readonly layer: 'policy' | 'sandbox' | 'limit';
  readonly reason: string;
  readonly count: number;
}
