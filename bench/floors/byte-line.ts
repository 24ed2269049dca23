import { createConnection } from 'node:net';

export interface ByteLine {
  /** Sends a message of MESSAGE_BYTES and waits for as many, of which it does not matter whose answer they are. */
  run(): Promise<void>;
}

export const MESSAGE_BYTES = 128;
const MESSAGE = Buffer.alloc(MESSAGE_BYTES);

/** A client of a floor: it knows no frames, it counts. */
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
