/** Messages between the gateway and the egress proxy, as plain data on descriptor 3, in frames of docs/protocol.md's codec. */
import type { Limits } from '../../base/limits.ts';
import type { Destination, NetworkLayer, NetworkRule } from '../../policy/network.ts';
import type { OutgoingProxy } from './outgoing-proxy.ts';

export type ToProxy =
  | { readonly setup: { readonly limits: Limits; readonly outgoing?: OutgoingProxy | undefined } }
  /** A command that may connect; its listener comes with the token, before or after this. */
  | { readonly open: { readonly token: string } & EgressTerms }
  | { readonly answer: { readonly id: number; readonly answer: DoorAnswer } }
  /** One request of a call without a command; answered before the token is closed, or not at all. Redirects are answers. */
  | { readonly fetch: { readonly token: string; readonly asked: HttpRequest } }
  | { readonly close: { readonly token: string } };

/** What a command may connect to. */
export interface EgressTerms {
  readonly layers: readonly NetworkLayer[];
  /** Absent if nobody is asked about other hosts. */
  readonly door?: DoorTerms;
  /** What the proxy adds to the command's plain requests to some hosts, which it then sends on by TLS. */
  readonly keys?: readonly RemoteKey[] | undefined;
}

/** A key that a command may use and never holds: requests to `http://HOST:PORT` through the proxy get it outside of the sandbox. */
export interface RemoteKey extends Destination {
  /** Whether the proxy speaks TLS to the host; without it the key goes to this machine's loopback only. */
  readonly isTls: boolean;
  /** The headers go with requests below this path only, which ends with `/`. */
  readonly path: string;
  /** The path of a file of cargo's index that says where the host keeps packages: it is given with the address that commands reach. */
  readonly index?: string;
  /** Whether it is for requests that only read; others are refused. */
  readonly readsOnly?: boolean;
  /** Whether such requests may publish, too, by PUT. */
  readonly publishes?: boolean;
  /** Headers of each request; absent for a host that is reached without a key. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface DoorTerms {
  /** Which of the layers have a person asked. */
  readonly asks: readonly boolean[];
  /** Bytes that may be sent to opened hosts before a person is asked again. */
  readonly uploadBytesMax: number;
}

/**
 * Whether a host may be connected to that a list does not name, or sent so much. `service`: whether a service of the machine that the
 * command reaches is still the one that was agreed on.
 */
export interface HostQuestion extends Destination {
  readonly kind: 'host' | 'upload' | 'service';
  /** Port from which the program connected to the proxy. */
  readonly clientPort?: number | undefined;
  /** Bytes that the command sent to hosts that were opened. */
  readonly sent: number;
}

/** Whether a command may talk to a program of the gateway's, which `host` names. */
interface ProgramQuestion extends Omit<HostQuestion, 'kind'> {
  readonly kind: 'program';
}

export type DoorQuestion = HostQuestion | ProgramQuestion;

/**
 * Entries of a list that are open from now on, or for a service the address where it listens; the token of the program that was started; or
 * why nothing is.
 */
export type DoorAnswer =
  | { readonly open: readonly NetworkRule[] }
  | { readonly program: string }
  | { readonly refused: string };

/** One HTTP request to one server, and how much of the answer is wanted. Headers may hold secrets: they are neither logged nor reported. */
export interface HttpRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
  /** Bytes of the decompressed body that are wanted; the rest is cut. */
  readonly bytesMax: number;
  /** Time for the whole exchange, to the last byte of the body. */
  readonly withinMs: number;
  /** Time for which the server may send nothing. Default: no bound of its own. */
  readonly idleMs?: number;
  /** Secrets of the request; one with any follows no redirection. */
  readonly credentials?: readonly Credential[];
  /** Certificates of authorities in PEM, in place of the machine's. */
  readonly ca?: string | undefined;
}

/** A secret, and its place in a request. */
export interface Credential {
  readonly in: 'header' | 'query' | 'path';
  /** Name of the header or of the parameter of the query, or the text in the path that the secret takes the place of. */
  readonly name: string;
  /** The text that is sent. */
  readonly value: string;
  /** The part of it that is secret. */
  readonly secret: string;
}
