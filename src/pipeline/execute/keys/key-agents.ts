/** The keys of the person that calls use without holding them, and what reaches them. */
import type { EgressDoor } from '../../../hosts/egress.ts';
import type { NetworkLayer } from '../../../policy/network.ts';
import type { RemoteKey } from '../../../sandbox/egress/messages.ts';
import type { SshServer } from '../../../tools/context/ssh-server.ts';

export interface RemoteKeys extends KeyAgents {
  /** Headers with the person's key for a URL; undefined without one. Throws AUTH_REQUIRED for a key that can't be read. */
  headersFor(url: URL): Promise<Readonly<Record<string, string>> | undefined>;
  /** Gives the keys that a command may use, and whether to publish, too; undefined if there are none. It never rejects. */
  readonly ofCommands: ((publishes: boolean) => Promise<readonly RemoteKey[]>) | undefined;
}

/** Programs that work with the keys in agents of the person. */
export interface KeyAgents {
  readonly ssh?: SshRemotes | undefined;
  readonly signer?: CommitSigner | undefined;
}

/** Servers by ssh, with the keys in the person's agent. */
export interface SshRemotes {
  /** Whether there is an agent that holds a key. */
  hasKey(): Promise<boolean>;
  /** Whether the person knows the host key of a server. */
  knows(server: SshServer): Promise<boolean>;
  /** Throws AUTH_REQUIRED without a key, ACCESS_DENIED for a host whose key the person does not know. */
  assertReachable(server: SshServer): Promise<void>;
  /** Starts ssh, outside of the call's sandbox; gives its token at the proxy. Throws SANDBOX_UNAVAILABLE. */
  start(server: SshServer, program: string, until: AbortSignal): string;
}

/** What programs of a call may connect to. */
export interface RemoteTerms {
  readonly network: readonly NetworkLayer[];
  readonly keys?: () => Promise<readonly RemoteKey[]>;
  readonly door?: EgressDoor;
  /** Whether the call may have a commit signed. */
  readonly signs?: true;
}

/** A key of the person in one of their agents. */
export interface SigningKey {
  /** A name that tells it from others: its kind and fingerprint. */
  readonly name: string;
  /** Starts a signer of one commit; gives its token at the proxy. Throws SANDBOX_UNAVAILABLE. */
  start(until: AbortSignal): string;
}

export interface CommitSigner {
  /** The key with which the person's git signs commits, or why it can't be used; undefined if they don't sign. */
  key(): Promise<SigningKey | { readonly problem: string } | undefined>;
}
