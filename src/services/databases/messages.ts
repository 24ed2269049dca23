/** Messages between the gateway and the process of a database server, as plain data in frames of docs/protocol.md's codec. */
import type { Code } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { AskedOfServer, ServerSource } from '../../tools/context/databases.ts';

/** What the process connects with. Nobody but this process and the gateway, which reads the secret for it, has the password. */
export interface ServerLogin extends Omit<ServerSource, 'secret' | 'ca'> {
  readonly password?: string | undefined;
  /** Certificates of authorities in PEM, in place of the machine's. */
  readonly caPem?: string | undefined;
}

export type ToServerProcess =
  | { readonly setup: { readonly limits: Limits; readonly login: ServerLogin } }
  | {
      readonly ask: {
        readonly id: number;
        readonly asked: AskedOfServer;
        readonly withinMs: number;
        /** The session that made the call: sessions take turns. */
        readonly session: string;
      };
    }
  /** Ends a statement by the database's own cancel. Its answer still comes, and nobody waits for it. */
  | { readonly cancel: { readonly id: number } };

export interface Refusal {
  readonly code: Code;
  readonly message: string;
  readonly suggestion?: string | undefined;
}
