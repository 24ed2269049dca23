/**
 * Statements on database servers: each connection has a confined process of its own, which alone is given the password,
 * starts with the first statement, and ends when none came for a while.
 */

import { ToolError } from '../../base/errors.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { canonical } from '../../base/text/values.ts';
import type { DatabaseRequest, ServerAnswer, ServerSource } from '../../tools/context/databases.ts';
import type { DaemonParts } from '../capability.ts';
import { readCertificates } from '../certificates.ts';
import { ServerProcess, type StatementBounds } from './server-process.ts';

export type DatabaseServersOptions = Pick<DaemonParts, 'sandbox' | 'secrets' | 'limits'> & {
  readonly program: readonly string[];
};

interface RunningServer {
  readonly process: Promise<ServerProcess>;
  /** What the connection was when the process started. */
  readonly source: string;
  calls: number;
  idle?: Timer;
}

export class DatabaseServers implements AsyncDisposable {
  readonly #options: DatabaseServersOptions;
  readonly #powers: Powers;
  readonly #running = new Map<string, RunningServer>();
  readonly #ending = new Set<Promise<void>>();
  #isClosed = false;

  constructor(options: DatabaseServersOptions, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
  }

  /** Throws ToolError, the signal's reason. */
  async run({ connection, source, asked }: DatabaseRequest, bounds: StatementBounds): Promise<ServerAnswer> {
    const startedMs = this.#powers.monotonicMs();
    const server = this.#serverOf(connection, source);
    server.calls += 1;
    server.idle?.cancel();
    try {
      const process = await server.process;
      const answer = await process.ask(asked, bounds);
      const durationMs = Math.round((this.#powers.monotonicMs() - startedMs) * 1000) / 1000;
      return { ...answer, durationMs };
    } catch (error) {
      // The next call reads the secret again, which may be another by then.
      if (error instanceof ToolError && error.code === 'AUTH_REQUIRED') this.#forget(connection, server);
      throw error;
    } finally {
      server.calls -= 1;
      if (server.calls === 0)
        server.idle = this.#powers.after(this.#options.limits.databaseIdleMs, () => this.#forget(connection, server));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    for (const [name, it] of this.#running) this.#forget(name, it);
    await Promise.all(this.#ending);
  }

  #serverOf(connection: string, source: ServerSource): RunningServer {
    if (this.#isClosed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
    const known = this.#running.get(connection);
    const written = canonical(source);
    if (known && known.source === written) return known;
    if (known) this.#forget(connection, known);
    const process = this.#start(source);
    const server: RunningServer = { process, source: written, calls: 0 };
    this.#running.set(connection, server);
    const forget = () => this.#forget(connection, server);
    process.then((it) => it.lost.then(forget), forget);
    return server;
  }

  async #start({ secret, ca, ...source }: ServerSource): Promise<ServerProcess> {
    const { sandbox, program, secrets, limits } = this.#options;
    const { host, port } = source;
    const url = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
    const password = secret === undefined ? undefined : await secrets.read({ name: secret }, url);
    const caPem = ca === undefined ? undefined : readCertificates(ca, unreadable);
    const login = { ...source, password, caPem };
    return new ServerProcess({ sandbox, program, login, limits, powers: this.#powers });
  }

  #forget(connection: string, server: RunningServer): void {
    server.idle?.cancel();
    if (this.#running.get(connection) === server) this.#running.delete(connection);
    // Rejects if the process never started.
    const ended = server.process.then((it) => it.end()).catch(() => {});
    this.#ending.add(ended);
    void ended.then(() => this.#ending.delete(ended));
  }
}

const unreadable = (cause: Error): ToolError =>
  new ToolError('UNSUPPORTED', "the file with the certificates of the connection can't be read", { cause });
