/**
 * A language server of the person's toolchains, in the sandbox of a command: JSON-RPC over its standard input and output. What it runs
 * of the workspace (cargo, a Go toolchain) runs there as for any command.
 */
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';
import type { MessageConnection } from 'vscode-jsonrpc/node';
import { ToolError } from '../../../base/errors.ts';
import type { CommandResult, ToolContext } from '../../tool.ts';

const NOT_FOUND_BY_SHELL = 127;

const CAPABILITIES = {
  general: { positionEncodings: ['utf-16'] },
  workspace: { workspaceEdit: { documentChanges: true } },
  // Makes rust-analyzer send `experimental/serverStatus`, which says when it has read the workspace.
  experimental: { serverStatusNotification: true },
};

/** Keeps rust-analyzer from building the workspace; other servers have no such settings. */
const SETTINGS = {
  checkOnSave: false,
  cargo: { buildScripts: { enable: false } },
  procMacro: { enable: false },
};

export class LanguageServer {
  readonly #connection: MessageConnection;
  readonly #ended: Promise<never>;

  /** `ended` rejects when the server ends. */
  constructor(connection: MessageConnection, ended: Promise<never>) {
    this.#connection = connection;
    this.#ended = ended;
  }

  /** The server's answer; null for none. Throws HOST_CRASHED if it ends, and for an error of the server CONFLICT with its words. */
  async ask<T>(method: string, params: object): Promise<T | null> {
    const { ResponseError } = await import('vscode-jsonrpc/node');
    const answer = this.#connection.sendRequest<T | null>(method, params).catch((error: unknown) => {
      // A broken connection: the server's end tells the reason.
      if (!(error instanceof ResponseError)) return this.#ended;
      throw new ToolError('CONFLICT', `the language server refuses it: ${error.message.slice(0, 500).toWellFormed()}`, {
        suggestion: 'Nothing was changed. Choose another name, or mend what it says.',
      });
    });
    return Promise.race([answer, this.#ended]);
  }

  async tell(method: string, params: object): Promise<void> {
    // A write error means that it has ended, which the next request reports.
    await this.#connection.sendNotification(method, params).catch(() => {});
  }
}

/**
 * Starts the first of some command lines whose program is installed, and ends it after `work`. Throws UNSUPPORTED if none is, or if it
 * ends before it answers.
 */
export async function withLanguageServer<T>(
  commands: readonly string[],
  ctx: ToolContext,
  work: (server: LanguageServer) => Promise<T>,
): Promise<T> {
  for (const command of commands) {
    const ran = await served(command, ctx, work);
    if ('result' in ran) return ran.result;
    if (ran.exitCode === NOT_FOUND_BY_SHELL) continue;
    throw new ToolError('UNSUPPORTED', `\`${command}\` ended with ${ran.exitCode} before it answered: ${said(ran)}`, {
      suggestion: 'Ask the person to mend that installation; file_multi_edit with wholeWord: true renames without it.',
    });
  }
  const names = commands.map((it) => `\`${it.split(' ')[0]}\``).join(', ');
  throw new ToolError('UNSUPPORTED', `none of ${names} is installed where commands find it`, {
    suggestion:
      'Ask the person to install one. Without it workspace_find_references names the uses, and file_multi_edit with wholeWord: true changes them.',
  });
}

async function served<T>(
  command: string,
  ctx: ToolContext,
  work: (server: LanguageServer) => Promise<T>,
): Promise<{ result: T } | CommandResult> {
  const { createMessageConnection, StreamMessageReader, StreamMessageWriter } = await import('vscode-jsonrpc/node');
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const onReport = (chunk: Buffer) => void stdout.write(Buffer.from(chunk));
  const over = new AbortController();
  const request = { command: `exec ${command}`, cwd: '.', env: {}, stdin, report: '-', onReport, until: over.signal };
  const ended = ctx.run(ctx.command(request));
  ended.catch(() => {}); // Avoids an unhandled rejection when nobody awaits it.
  const connection = createMessageConnection(new StreamMessageReader(stdout), new StreamMessageWriter(stdin));
  const isReady = Promise.withResolvers<void>();
  isReady.promise.catch(() => {}); // Avoids an unhandled rejection when nobody awaits it.
  connection.onNotification('experimental/serverStatus', ({ quiescent, health, message }: ServerStatus) => {
    if (health === 'error') isReady.reject(unready(message));
    else if (quiescent) isReady.resolve();
  });
  // Requests for settings, progress and watched files need no more than an answer.
  connection.onRequest(() => null);
  connection.onError(() => {});
  connection.listen();
  try {
    const early = ended.then(endedEarly);
    early.catch(() => {}); // Avoids an unhandled rejection when nobody awaits it.
    const server = new LanguageServer(connection, early);
    const rootUri = pathToFileURL(ctx.workspace).href;
    const hello = server.ask<{ serverInfo?: { name?: string } }>('initialize', {
      processId: null,
      rootUri,
      workspaceFolders: [{ uri: rootUri, name: 'workspace' }],
      capabilities: CAPABILITIES,
      initializationOptions: SETTINGS,
    });
    const about = await Promise.race([hello, ended.then(() => undefined)]).catch(() => undefined);
    if (about === undefined) return await ended;
    await server.tell('initialized', {});
    if (about?.serverInfo?.name === 'rust-analyzer') await Promise.race([isReady.promise, early]);
    const result = await work(server);
    await server.ask('shutdown', {}).catch(() => {});
    await server.tell('exit', {});
    return { result };
  } finally {
    connection.dispose();
    over.abort();
    await ended.catch(() => {});
  }
}

interface ServerStatus {
  readonly quiescent: boolean;
  readonly health: 'ok' | 'warning' | 'error';
  readonly message?: string;
}

const unready = (message = ''): ToolError =>
  new ToolError(
    'UNSUPPORTED',
    `the language server can't read the workspace: ${message.trim().slice(0, 500)}`.toWellFormed(),
    {
      suggestion: 'Mend what it says; file_multi_edit with wholeWord: true renames without it.',
    },
  );

function endedEarly(ran: CommandResult): never {
  throw new ToolError('HOST_CRASHED', `the language server ended with ${ran.exitCode} during this call: ${said(ran)}`, {
    suggestion: 'Try once more; if it ends again, rename with file_multi_edit and wholeWord: true.',
  });
}

const said = ({ stderr }: CommandResult): string => (stderr.trim().split('\n')[0] ?? '').slice(0, 500).toWellFormed();
