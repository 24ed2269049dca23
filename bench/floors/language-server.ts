/** The floor of code_type_check and code_refactor: TypeScript's language server, asked by nobody but us. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createMessageConnection, type MessageConnection } from 'vscode-jsonrpc/node';
import { typescriptProgram } from '../../workers/symbols/typescript-server.ts';

interface Edit {
  readonly range: { readonly start: Position; readonly end: Position };
  readonly newText: string;
}
interface Position {
  readonly line: number;
  readonly character: number;
}

export class BareLanguageServer implements Disposable {
  readonly #child: ChildProcess;
  readonly #connection: MessageConnection;
  readonly #folder: string;
  readonly #versions = new Map<string, number>();

  private constructor(folder: string) {
    this.#folder = folder;
    this.#child = spawn(typescriptProgram(), ['--lsp', '--stdio'], { stdio: ['pipe', 'pipe', 'ignore'], cwd: '/' });
    const { stdin, stdout } = this.#child;
    if (!stdin || !stdout) throw new Error('the language server has no pipes');
    this.#connection = createMessageConnection(stdout, stdin);
    this.#connection.listen();
  }

  static async start(folder: string): Promise<BareLanguageServer> {
    const server = new BareLanguageServer(folder);
    const capabilities = { workspace: { didChangeWatchedFiles: { dynamicRegistration: true } } };
    const initializationOptions = { disablePushDiagnostics: true };
    const rootUri = pathToFileURL(folder).href;
    await server.#connection.sendRequest('initialize', {
      processId: null,
      rootUri,
      capabilities,
      initializationOptions,
    });
    await server.#connection.sendNotification('initialized', {});
    return server;
  }

  /** Checks the types of a file. */
  async diagnose(path: string): Promise<number> {
    await this.#show(path, this.#read(path));
    const textDocument = { uri: this.#uriOf(path) };
    const { items } = await this.#connection.sendRequest<{ items: unknown[] }>('textDocument/diagnostic', {
      textDocument,
    });
    return items.length;
  }

  /** Renames a symbol, and checks the types of each file that this would change; writes nothing. Returns their number. */
  async rename(path: string, position: Position, newName: string): Promise<number> {
    await this.#show(path, this.#read(path));
    const textDocument = { uri: this.#uriOf(path) };
    const params = { textDocument, position, newName };
    const { changes } = await this.#connection.sendRequest<{ changes: Record<string, Edit[]> }>(
      'textDocument/rename',
      params,
    );
    const texts = Object.entries(changes).map(([uri, edits]) => {
      const changed = fileURLToPath(uri).slice(this.#folder.length + 1);
      const before = this.#read(changed);
      return { changed, before, after: edited(before, edits) };
    });
    for (const { changed, after } of texts) await this.#show(changed, after);
    for (const { changed } of texts)
      await this.#connection.sendRequest('textDocument/diagnostic', { textDocument: { uri: this.#uriOf(changed) } });
    for (const { changed, before } of texts) await this.#show(changed, before);
    return texts.length;
  }

  [Symbol.dispose](): void {
    this.#connection.dispose();
    this.#child.kill();
  }

  #read(path: string): string {
    return readFileSync(join(this.#folder, path), 'utf8');
  }

  #uriOf(path: string): string {
    return pathToFileURL(join(this.#folder, path)).href;
  }

  async #show(path: string, text: string): Promise<void> {
    const version = (this.#versions.get(path) ?? 0) + 1;
    this.#versions.set(path, version);
    const uri = this.#uriOf(path);
    if (version === 1) {
      const textDocument = { uri, languageId: 'typescript', version, text };
      await this.#connection.sendNotification('textDocument/didOpen', { textDocument });
    } else {
      const change = { textDocument: { uri, version }, contentChanges: [{ text }] };
      await this.#connection.sendNotification('textDocument/didChange', change);
    }
  }
}

function edited(text: string, edits: readonly Edit[]): string {
  const lines = text.split('\n');
  const later = edits.toSorted(
    (a, b) => b.range.start.line - a.range.start.line || b.range.start.character - a.range.start.character,
  );
  for (const { range, newText } of later) {
    const line = lines[range.start.line] ?? '';
    lines[range.start.line] = line.slice(0, range.start.character) + newText + line.slice(range.end.character);
  }
  return lines.join('\n');
}
