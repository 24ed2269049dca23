/** What `ringfence/client` is: the client, which finds this person's daemon, or starts it, where no socket is named. */
import { type Client, type ClientOptions, createClient as createClientAt } from '../client/client.ts';

export * from '../client/client.ts';

/** Options of `createClient`: without `socket` the daemon is found as the command line finds it, by the same environment. */
export interface FoundClientOptions extends Partial<ClientOptions> {
  /** State directory of the daemon, if not the person's own. */
  readonly state?: string;
  /** Whether to start a daemon if none runs; true when absent. It ends when nobody uses it any more. */
  readonly autostart?: boolean;
}

/**
 * A connected client. Without `workspace` the current folder is the one to work in. Rejects with the system's error when no daemon listens
 * at `socket`, with CliError when none could be started, with RemoteError when it refuses.
 */
export async function createClient(options: FoundClientOptions = {}): Promise<Client> {
  const { socket, state, autostart = true, ...others } = options;
  if (socket !== undefined) return await createClientAt({ ...others, socket });
  const { connect } = await import('../cli/connect.ts');
  const { workspace, role, token, ...client } = others;
  const flags = { autostart, ...(state !== undefined && { state }), ...(workspace !== undefined && { workspace }) };
  const from = { flags, env: process.env, cwd: process.cwd() };
  return await connect({
    ...from,
    client: { name: 'ringfence/client', ...client, ...(token !== undefined && { token }) },
    ...(role === 'operator' && { role }),
  });
}
