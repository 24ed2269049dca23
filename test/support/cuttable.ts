/** A proxy socket for a daemon whose connections a test can cut. */
import { createConnection, createServer, type Socket } from 'node:net';
import { join } from 'node:path';

export interface Cuttable extends AsyncDisposable {
  readonly socket: string;
  /** Number of connections accepted so far. */
  readonly taken: () => number;
  /** Ends all connections in both directions, as a network failure does. */
  cut(): void;
}

/** Listens beside the daemon's socket. */
export async function cuttable(of: { readonly stateDir: string; readonly socket: string }): Promise<Cuttable> {
  const path = join(of.stateDir, 'cuttable.sock');
  const open = new Set<Socket>();
  let taken = 0;
  const server = createServer((near) => {
    taken += 1;
    const far = createConnection(of.socket);
    for (const it of [near, far]) {
      open.add(it);
      it.on('error', () => it.destroy()).on('close', () => open.delete(it)); // Cut by the test.
    }
    near.pipe(far).pipe(near);
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const cut = () => {
    for (const it of open) it.destroy();
  };
  return {
    socket: path,
    taken: () => taken,
    cut,
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
