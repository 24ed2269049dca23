/** Bytes in, bytes out; no transport knows what a message is. */

import type { PeerCredentials } from './peer-credentials.ts';

export interface ChannelEvents {
  /** A chunk of the stream, or one whole payload where the transport has messages of its own. */
  data(bytes: Buffer): void;
  /** What was waiting to be written is written. */
  drain(): void;
  /** The other side is gone; nothing comes after it. */
  close(): void;
}

/** One connection, from the moment it may carry messages. */
export interface Channel {
  readonly kind: 'unix' | 'websocket';
  /** `length`: a stream that needs frames. `message`: the transport keeps payloads apart. */
  readonly framing: 'length' | 'message';
  readonly encoding: 'msgpack' | 'json';
  /** Whether whoever connects has shown who he is: by the mode of a file, or by a token. */
  readonly authenticated: boolean;
  /** The token that it was opened with; whose it is decides what its session may do, as with one in hello. */
  readonly bearer?: string;
  /** Who connected, where the kernel says; for the record, it grants nothing. */
  readonly credentials?: PeerCredentials;
  /** Bytes handed over and not yet written. */
  readonly bufferedBytes: number;
  /** Called once, before anything else. */
  open(events: ChannelEvents): void;
  send(bytes: Buffer): void;
  pause(): void;
  resume(): void;
  /** Ends after what was sent is written. */
  close(): void;
  /** Ends at once. */
  destroy(): void;
}

/** A transport that takes connections. */
export interface Listener extends AsyncDisposable {
  /** Where clients find it: a path or a URL. */
  readonly address: string;
}
