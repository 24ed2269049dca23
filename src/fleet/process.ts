/** The daemon's side of the process that links it to a fleet: starts it, starts it again when it dies, and ends it. */
import type { ChildProcess } from 'node:child_process';
import type { Log, Powers, Timer } from '../base/powers.ts';
import { FleetError } from './fleet-error.ts';
import { started } from './started.ts';

/** What the process tells the daemon. */
export type ProcessMessage =
  | { readonly ready: string }
  | { readonly failed: string; readonly isExpected: boolean }
  | { readonly level: keyof Log; readonly fields: Record<string, unknown>; readonly text: string };

export interface FleetProcessOptions {
  /** Program and first arguments of the process. */
  readonly program: readonly string[];
  readonly stateDir: string;
  readonly socket: string;
  readonly mcpSocket: string;
  /** Address of the bus. */
  readonly url: string;
  readonly powers: Powers;
}

const RESTART_MS = 1_000;

export class FleetProcess implements AsyncDisposable {
  readonly #options: FleetProcessOptions;
  #child: ChildProcess | undefined;
  #restart: Timer | undefined;
  #isEnded = false;

  private constructor(options: FleetProcessOptions) {
    this.#options = options;
  }

  /** Starts the process. Throws FleetError if there is no credential, or a package is missing. */
  static async start(options: FleetProcessOptions): Promise<FleetProcess> {
    const { url } = options;
    if (!/^nats:\/\/[a-z0-9][a-z0-9.-]*:\d{1,5}$/i.test(url))
      throw new FleetError(`--fleet must be nats://HOST:PORT, not ${url.slice(0, 128)}`);
    return started(new FleetProcess(options), (it) => it.#start());
  }

  /** Resolves when the process is ready. Rejects with FleetError if it ends before. */
  #start(): Promise<void> {
    const { program, stateDir, socket, mcpSocket, url, powers } = this.#options;
    const [command = process.execPath, ...first] = program;
    const paths = [`--state=${stateDir}`, `--socket=${socket}`, `--mcp-socket=${mcpSocket}`];
    const args = [...first, ...paths, `--url=${url}`];
    const child = powers.spawn(command, args, { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], env: {} });
    this.#child = child;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    child.on('message', (message: ProcessMessage) => {
      if ('level' in message) powers.log[message.level]({ ...message.fields, of: 'fleet' }, message.text);
      else if ('ready' in message) resolve();
      else reject(new FleetError(message.failed));
    });
    child.once('error', (error) => reject(new FleetError(error.message)));
    child.once('exit', (code, signal) => {
      reject(new FleetError(`the process of the fleet ended with ${signal ?? code}`));
      this.#startAgain();
    });
    return promise;
  }

  #startAgain(): void {
    const { powers } = this.#options;
    if (this.#isEnded) return;
    this.#restart = powers.after(RESTART_MS, () => {
      this.#start().catch((error: Error) =>
        powers.log.error({ reason: error.message }, 'the daemon is not linked to its fleet'),
      );
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true;
    this.#restart?.cancel();
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    child.kill('SIGKILL'); // The process keeps nothing that is not written at once.
    await ended;
  }
}
