/** Interfaces of transports, which carry bytes and know nothing about messages. */

import type { Server } from 'node:net';
import type { PeerCredentials } from './peer-credentials.ts';

export interface ChannelEvents {
  /** A chunk of the stream, or one complete payload if the transport has messages of its own. */
  data(bytes: Buffer): void;
  /** All waiting data has been written. */
  drain(): void;
  /** The other side is gone; no event follows. */
  close(): void;
}

/** One connection that is ready for messages. */
export interface Channel {
  readonly kind: 'unix' | 'websocket';
  /** `length`: a byte stream that needs frames. `message`: the transport separates payloads. */
  readonly framing: 'length' | 'message';
  readonly encoding: 'msgpack' | 'json';
  /** Whether the peer is authenticated: by the mode of a socket file, or by a token. */
  readonly authenticated: boolean;
  /** The token that the connection was opened with; grants the same identity as a token in hello. */
  readonly bearer?: string | undefined;
  /** The connecting process, if the kernel tells. For the record only; grants nothing. */
  readonly credentials?: PeerCredentials | undefined;
  /** Bytes sent but not yet written. */
  readonly bufferedBytes: number;
  /** Must be called once, before anything else. */
  open(events: ChannelEvents): void;
  /** Sends data; with `more`, other data follows within this round of the event loop and both may be written in one call. */
  send(bytes: Buffer, more?: boolean): void;
  pause(): void;
  resume(): void;
  /** Closes after everything sent is written. */
  close(): void;
  /** Closes immediately. */
  destroy(): void;
}

/** A listening transport. */
export interface Listener extends AsyncDisposable {
  /** Address for clients: a path or a URL. */
  readonly address: string;
  /** Closing it leaves the open connections alone; the socket can be handed over to another process before. */
  readonly server: Server;
  /** Tells clients to go over to a new daemon. */
  goOver?(): void;
  /** Number of clients that go over by themselves, and have not yet. */
  readonly stayers?: number;
}
