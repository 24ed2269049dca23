/** Sessions on workspaces that a node makes, opened as the link of a fleet does, without a bus. */
import { createHash } from 'node:crypto';
import { bootMs } from '../../src/base/powers.ts';
import { type Client, createClient } from '../../src/client/client.ts';
import type { CollectedChanges } from '../../src/gateway/connections/placed-workspaces.ts';
import type { OpenDaemon } from './daemon.ts';

export interface PlacedSession extends AsyncDisposable {
  readonly client: Client;
  readonly folder: string;
  /** Name under which the workspace is kept, branch of the session. */
  readonly placed: { readonly name: string; readonly branch: string; readonly keptMs: number };
  run(command: string): Promise<{ exitCode: number; stdout: string; stderr: string }>;
}

/** An hour: nobody renews the lease in these tests. */
const LEASE_MS = 3_600_000;

/** Opens a session; throws what the daemon says if it can't make the workspace. */
export async function openPlaced(daemon: OpenDaemon, operator: Client, workspace: string): Promise<PlacedSession> {
  const { id, token } = (await operator.request('fleet.admit', { workspace, node: 'node-a' })) as Record<
    string,
    string
  >;
  try {
    await operator.request('fleet.ready', { id });
    const confirmedAtMs = bootMs() + LEASE_MS;
    await operator.request('fleet.confirm', { id, epoch: 1, confirmedAtMs, notAfterMs: confirmedAtMs });
    const client = await createClient({ socket: daemon.socket, token: token as string });
    const { session } = await client.hello;
    return {
      client,
      folder: session.workspace,
      placed: (session as unknown as Pick<PlacedSession, 'placed'>).placed,
      async run(command) {
        const result = await client.call('terminal_execute', { command });
        if (!result.success) throw new Error(result.error.message);
        return result.data as { exitCode: number; stdout: string; stderr: string };
      },
      async [Symbol.asyncDispose]() {
        await client[Symbol.asyncDispose]();
        await operator.request('fleet.close', { id });
      },
    };
  } catch (error) {
    await operator.request('fleet.close', { id });
    throw error;
  }
}

/** Collects the changes of a session; gives what the node tells, and the file. */
export async function collect(client: Client, asked: object = {}): Promise<{ told: CollectedChanges; bytes: Buffer }> {
  const told = (await client.request('workspaces.collect', asked)) as CollectedChanges;
  const pieces: Uint8Array[] = [];
  for (let offset = 0, eof = told.bytes === undefined; !eof; ) {
    const piece = (await client.request('workspaces.read', { offset })) as { data: Uint8Array; eof: boolean };
    pieces.push(piece.data);
    offset += piece.data.length;
    eof = piece.eof;
  }
  const bytes = Buffer.concat(pieces);
  if (told.sha256 && createHash('sha256').update(bytes).digest('hex') !== told.sha256)
    throw new Error('the file is another one than was told');
  return { told, bytes };
}
