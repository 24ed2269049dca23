/** HTTP requests of tools. The egress process makes them. */
import { sshServerOf } from './ssh-server.ts';

/** A request that is all that a call does. */
export interface WebRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Whether redirects are followed; else a redirect is the answer. */
  readonly followRedirects: boolean;
  /** Whether an answer that the principal's web cache keeps may be given, or replaced by a new one; absent: no cache is used. */
  readonly cache?: 'use' | 'renew';
}

/** A request whose answer the tool reads. */
export interface ServerRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Bytes of the answer's body that the tool gets. */
  readonly keepBytes: number;
}

export type ServerAnswer =
  | { readonly status: number; readonly body: Uint8Array; readonly truncated: boolean }
  /** Why there is no answer. */
  | { readonly missing: string };

export interface AnsweredRequest {
  readonly request: ServerRequest;
  readonly answer: ServerAnswer;
}

/** The `host:port` of a URL with http:// or https://, or of a remote by ssh. */
export function destinationOf(url: string): string {
  const server = sshServerOf(url);
  if (server) return `${server.host}:${server.port}`;
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
}

/** Registries of packages, whose addresses are the operator's settings. */
export type RegistryKind = 'npm' | 'python';
