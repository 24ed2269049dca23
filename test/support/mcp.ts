/** MCP clients of a test daemon: the SDK's, and one that sends raw text. */
import { createConnection, type Socket } from 'node:net';
import { Client, type ClientOptions } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { ringfence, type TestDaemon, until } from './daemon.ts';

export type Era = 'legacy' | 'modern';
export const ERAS: readonly Era[] = ['legacy', 'modern'];

export const mcpSocketOf = ({ socket }: Pick<TestDaemon, 'socket'>): string => socket.replace(/\.sock$/, '.mcp.sock');

export interface McpOptions {
  readonly era?: Era;
  /** Arguments of `ringfence mcp`. */
  readonly args?: readonly string[];
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  readonly client?: ClientOptions;
  /** Sets the client's handlers before it connects. */
  prepare?(client: Client): void;
}

/** A client whose server is `ringfence mcp`; closing it ends that process. */
export async function connectMcp(
  daemon: Pick<TestDaemon, 'socket' | 'workspace'>,
  { era = 'legacy', args, env, cwd, client: options, prepare }: McpOptions = {},
): Promise<Client & AsyncDisposable> {
  const mode = era === 'legacy' ? 'legacy' : ({ pin: '2026-07-28' } as const);
  const client = new Client({ name: 'test', version: '1' }, { ...options, versionNegotiation: { mode } });
  prepare?.(client);
  const words = [ringfence, 'mcp', '--socket', daemon.socket, ...(args ?? ['--workspace', daemon.workspace])];
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: words,
      stderr: 'pipe',
      ...(env && { env }),
      ...(cwd !== undefined && { cwd }),
    }),
  );
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

export interface Answer {
  readonly id?: string | number | null;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: { code: number; message: string; data?: Record<string, unknown> };
}

/** A connection to the MCP socket without an SDK. */
export class RawMcp implements Disposable {
  readonly socket: Socket;
  readonly answers: Answer[] = [];
  closed = false;
  #text = '';
  #nextId = 1;

  constructor(path: string) {
    this.socket = createConnection(path);
    this.socket.on('data', (chunk) => this.#hear(chunk.toString()));
    this.socket.on('close', () => (this.closed = true)).on('error', () => {}); // Tests cut it off.
  }

  static async open(daemon: Pick<TestDaemon, 'socket'>): Promise<RawMcp> {
    const raw = new RawMcp(mcpSocketOf(daemon));
    await until(() => raw.socket.readyState === 'open');
    return raw;
  }

  /** Sends `initialize` and `notifications/initialized`. */
  async initialize(capabilities: object = {}, protocolVersion = '2025-11-25'): Promise<Answer> {
    const answer = await this.request('initialize', {
      protocolVersion,
      capabilities,
      clientInfo: { name: 'raw', version: '1' },
    });
    this.send({ method: 'notifications/initialized' });
    return answer;
  }

  send(message: object): void {
    this.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  write(text: string | Uint8Array): void {
    this.socket.write(text);
  }

  async request(method: string, params: object = {}): Promise<Answer> {
    const id = `r${this.#nextId++}`;
    this.send({ id, method, params });
    return this.answer(id);
  }

  async answer(id: Answer['id'], withinMs?: number): Promise<Answer> {
    const found = () => this.answers.find((it) => it.id === id && it.method === undefined);
    await until(() => found() !== undefined, withinMs);
    return found() as Answer;
  }

  #hear(text: string): void {
    const lines = (this.#text + text).split('\n');
    this.#text = lines.pop() as string;
    for (const line of lines) this.answers.push(JSON.parse(line) as Answer);
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

/** The first text of a result. */
export const textOf = (result: { content?: unknown }): string =>
  ((result.content as { type: string; text?: string }[] | undefined) ?? []).map((it) => it.text ?? '').join('\n');
