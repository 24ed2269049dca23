import { createConnection } from 'node:net';

export interface ByteLine {
  /** Sends MESSAGE_BYTES and waits for as many back; answers may belong to another request. */
  run(): Promise<void>;
}

export const MESSAGE_BYTES = 128;
const MESSAGE = Buffer.alloc(MESSAGE_BYTES);

/** A client for floors: it only counts bytes and knows no frames. */
export function connectBytes(path: string): ByteLine & Disposable {
  const socket = createConnection(path);
  const waiting: (() => void)[] = [];
  let bytes = 0;
  socket.on('data', (chunk) => {
    for (bytes += chunk.length; bytes >= MESSAGE.length; bytes -= MESSAGE.length) waiting.shift()?.();
  });
  return {
    run: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        socket.write(MESSAGE);
      }),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}
