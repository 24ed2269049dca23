/** Runs a provider's server as a child process: messages are lines, bounded in size and number. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { ResponseFilter } from './answers.ts';

export interface ServerCommand {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

export interface ServerProcessOptions {
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'monotonicMs'>;
  /** Receives the server's error output, as much as may be logged. */
  onStderr(text: string): void;
  /** Called once, when the server can't go on. */
  onFailure(reason: string): void;
}

const NEWLINE = 10;
const SECOND_MS = 1000;

export class ServerProcess implements Transport {
  readonly #server: ServerCommand;
  readonly #options: ServerProcessOptions;
  readonly #answers: ResponseFilter;
  #child: ChildProcessWithoutNullStreams | undefined;
  /** Pieces of an unfinished line. */
  #pieces: Buffer[] = [];
  #pieceBytes = 0;
  #second = { since: 0, messages: 0, stderrBytes: 0 };
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  constructor(server: ServerCommand, options: ServerProcessOptions) {
    this.#server = server;
    this.#options = options;
    this.#answers = new ResponseFilter(options.limits);
  }

  async start(): Promise<void> {
    const { command, cwd, env } = this.#server;
    const [program = '', ...args] = command;
    // The fourth entry hides our socket to the gateway, which is fd 3 of this process.
    const child = spawn(program, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe', 'ignore'] });
    this.#child = child as unknown as ChildProcessWithoutNullStreams;
    this.#child.stdin.on('error', () => {}); // EPIPE: the server ended, which 'exit' reports.
    this.#child.stdout.on('error', () => {}).on('data', (chunk: Buffer) => this.#read(chunk));
    this.#child.stderr.on('error', () => {}).on('data', (chunk: Buffer) => this.#onStderr(chunk));
    this.#child.once('exit', (code, signal) => this.#fail(`the server ended (${signal ?? `exit code ${code}`})`));
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(new Error(`${program} can't be started: ${error.message}`)));
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin;
    if (!stdin?.writable) throw new Error('the server has ended');
    this.#answers.noteSent(message);
    // If a server does not read, its callers wait until their time is over.
    if (!stdin.write(`${JSON.stringify(message)}\n`)) await new Promise((resolve) => stdin.once('drain', resolve));
  }

  async close(): Promise<void> {
    this.#child?.kill('SIGKILL');
    this.onclose?.();
  }

  #read(chunk: Buffer): void {
    for (let from = 0; from < chunk.length; ) {
      const end = chunk.indexOf(NEWLINE, from);
      const piece = chunk.subarray(from, end < 0 ? chunk.length : end);
      this.#pieceBytes += piece.length;
      const { providerMessageBytes: max } = this.#options.limits;
      if (this.#pieceBytes > max) return this.#fail(`the server sent a message of more than ${max} bytes`);
      this.#pieces.push(piece);
      if (end < 0) return;
      const line = Buffer.concat(this.#pieces).toString('utf8').trim();
      this.#pieces = [];
      this.#pieceBytes = 0;
      from = end + 1;
      if (!this.#mayGoOn()) return;
      this.#onLine(line);
    }
  }

  #onLine(line: string): void {
    for (const message of this.#answers.messagesIn(line)) this.onmessage?.(message);
  }

  #mayGoOn(): boolean {
    const { providerMessagesPerSecond: max } = this.#options.limits;
    this.#thisSecond().messages += 1;
    if (this.#second.messages <= max) return true;
    this.#fail(`the server sent more than ${max} messages in a second`);
    return false;
  }

  #onStderr(chunk: Buffer): void {
    const second = this.#thisSecond();
    const left = this.#options.limits.providerStderrBytes - second.stderrBytes;
    second.stderrBytes += chunk.length;
    if (left > 0) this.#options.onStderr(chunk.subarray(0, left).toString('utf8'));
  }

  #thisSecond() {
    const now = this.#options.powers.monotonicMs();
    if (now - this.#second.since > SECOND_MS) this.#second = { since: now, messages: 0, stderrBytes: 0 };
    return this.#second;
  }

  #fail(reason: string): void {
    const child = this.#child;
    if (!child) return;
    this.#child = undefined;
    child.stdout.destroy();
    child.kill('SIGKILL');
    this.#options.onFailure(reason);
  }
}
