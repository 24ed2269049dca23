/** A minimal MCP client: JSON-RPC, one message a line, over the standard streams of a server that it starts, or over a socket. */
import { spawn } from 'node:child_process';
import { createConnection } from 'node:net';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

/** The result of a tool. */
export interface McpResult {
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly structuredContent?: object;
  readonly isError?: boolean;
}

interface ListedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
}

export interface McpLine extends AsyncDisposable {
  /** Resolves with the result of a tool. Rejects with the error of the tool or the server. */
  call(tool: string, input: object): Promise<McpResult>;
  /** Resolves with the result of a tool, even if it is an error. */
  ask(tool: string, input: object): Promise<McpResult>;
  /** Resolves with the list of tools. */
  list(): Promise<{ readonly tools: readonly ListedTool[] }>;
  /** Pid of the server, if it was started here. */
  readonly pid?: number | undefined;
}

export interface McpServer {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

const START_MS = 15_000;

/** Starts a server and initializes the session. If the server ends or does not answer in time, ends it and rejects. */
export async function startMcp({ program, args, cwd, env }: McpServer): Promise<McpLine> {
  const child = spawn(program, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk) => (said = `${said}${chunk}`.slice(-2000)));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()).once('error', () => resolve()));
  const end = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  const line = await hello(child.stdout, child.stdin, { ended, end, why: () => said.trim() || 'it said nothing' });
  return { ...line, pid: child.pid };
}

/** Connects to our own socket and initializes a session for a folder. */
export async function connectMcp(path: string, workspace: string): Promise<McpLine> {
  const socket = createConnection(path);
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const params = { workspace };
  socket.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/ringfence/open', params })}\n`);
  const end = async () => {
    socket.destroy();
    await ended;
  };
  return hello(socket, socket, { ended, end, why: () => 'the connection was closed' });
}

interface Server {
  readonly ended: Promise<void>;
  end(): Promise<void>;
  /** The server's last messages. */
  why(): string;
}

async function hello(output: Readable, input: Writable, { ended, end, why }: Server): Promise<McpLine> {
  const waiting = new Map<number, PromiseWithResolvers<object>>();
  void ended.then(() => {
    for (const it of waiting.values()) it.reject(new Error(`the server ended; ${why()}`));
  });
  createInterface(output).on('line', (line) => {
    const { id, result, error } = JSON.parse(line) as { id?: number; result?: object; error?: { message: string } };
    const asked = id === undefined ? undefined : waiting.get(id);
    if (id !== undefined) waiting.delete(id);
    if (error) asked?.reject(new Error(error.message));
    else asked?.resolve(result as object);
  });
  input.on('error', () => {}); // EPIPE: the server ended, which `ended` reports.
  const send = (message: object) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  let asked = 0;
  const request = (method: string, params: object) => {
    const answer = Promise.withResolvers<object>();
    asked += 1;
    waiting.set(asked, answer);
    send({ id: asked, method, params });
    return answer.promise;
  };
  const clientInfo = { name: 'ringfence-bench', version: '1' };
  const tooLate = setTimeout(() => void end(), START_MS);
  try {
    await request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
  } catch (error) {
    await end();
    throw error;
  } finally {
    clearTimeout(tooLate);
  }
  send({ method: 'notifications/initialized' });
  const ask = (name: string, given: object) => request('tools/call', { name, arguments: given }) as Promise<McpResult>;
  return {
    ask,
    async call(name, given) {
      const result = await ask(name, given);
      if (result.isError) throw new Error(`${name}: ${JSON.stringify(result).slice(0, 500)}`);
      return result;
    },
    list: () => request('tools/list', {}) as ReturnType<McpLine['list']>,
    [Symbol.asyncDispose]: end,
  };
}
