/** A repository behind a real HTTP server on loopback (git http-backend), or as a folder. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTls } from 'node:https';
import { dirname, join } from 'node:path';
import { removeTree, temporaryDir } from './daemon.ts';
import { authorityIn } from './service.ts';

const ENV = {
  PATH: process.env.PATH ?? '',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'A',
  GIT_AUTHOR_EMAIL: 'a@a',
  GIT_COMMITTER_NAME: 'A',
  GIT_COMMITTER_EMAIL: 'a@a',
};

/** Runs git on a folder; gives what it says. */
export const git = (cwd: string, ...args: string[]): string =>
  execFileSync('git', args, { cwd, encoding: 'utf8', env: ENV, stdio: ['ignore', 'pipe', 'pipe'] }).trim();

export class GitOrigin implements AsyncDisposable {
  /** Holds `project.git`. */
  readonly folder = temporaryDir('origin');
  readonly #work = temporaryDir('origin-work');
  readonly #server: Server;
  /** File with the certificate of its authority; undefined for a server without TLS. */
  readonly ca: string | undefined;
  /** Requests that the server got, by method and path. */
  readonly requests: string[] = [];
  /** Answers requests itself, if it returns true. */
  answers: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;

  private constructor(isTls: boolean) {
    const { key, ca } = isTls ? authorityIn(this.folder) : {};
    const serve = (request: IncomingMessage, response: ServerResponse) => this.#serve(request, response);
    this.ca = ca;
    this.#server =
      key && ca ? createTls({ key: readFileSync(key), cert: readFileSync(ca) }, serve) : createServer(serve);
  }

  static async start({ isTls = false } = {}): Promise<GitOrigin> {
    const origin = new GitOrigin(isTls);
    git(origin.#work, 'init', '-q', '-b', 'main');
    git(origin.folder, 'init', '-q', '--bare', '-b', 'main', 'project.git');
    git(join(origin.folder, 'project.git'), 'config', 'http.receivepack', 'true');
    origin.#server.listen(0, '127.0.0.1');
    await once(origin.#server, 'listening');
    return origin;
  }

  get base(): string {
    return `${this.ca === undefined ? 'http' : 'https'}://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  get url(): string {
    return `${this.base}/project.git`;
  }

  get bare(): string {
    return join(this.folder, 'project.git');
  }

  /** The work tree from which commits are made. */
  get work(): string {
    return this.#work;
  }

  /** Commits files, and pushes; gives the commit. */
  commit(files: Readonly<Record<string, string | Buffer>>): string {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.#work, name)), { recursive: true });
      writeFileSync(join(this.#work, name), text);
    }
    git(this.#work, 'add', '-A');
    return this.#publish();
  }

  /** Commits a tree that `git add` would not make; gives the commit. */
  commitTree(tree: string): string {
    const commit = git(this.#work, 'commit-tree', tree, '-m', 'made');
    git(this.#work, 'push', '-q', '-f', this.bare, `${commit}:refs/heads/made`);
    return commit;
  }

  /** Makes a tree of lines as `git ls-tree` has them; gives its hash. */
  tree(lines: readonly string[]): string {
    const options = { cwd: this.#work, encoding: 'utf8', env: ENV, input: `${lines.join('\n')}\n` } as const;
    return execFileSync('git', ['mktree'], options).trim();
  }

  #publish(): string {
    git(this.#work, 'commit', '-q', '-m', 'files');
    git(this.#work, 'push', '-q', '-f', this.bare, 'HEAD:refs/heads/main');
    return git(this.#work, 'rev-parse', 'HEAD');
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, search } = new URL(request.url ?? '/', this.base);
    this.requests.push(`${request.method} ${pathname}`);
    if (this.answers?.(request, response)) return;
    const child = spawn('git', ['http-backend'], {
      env: {
        ...ENV,
        GIT_PROJECT_ROOT: this.folder,
        GIT_HTTP_EXPORT_ALL: '1',
        REMOTE_USER: 'test',
        REQUEST_METHOD: request.method,
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    request.pipe(child.stdin.on('error', () => {}));
    let head: Buffer | undefined = Buffer.alloc(0);
    child.stdout.on('data', (piece: Buffer) => {
      if (!head) return void response.write(piece);
      head = Buffer.concat([head, piece]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return;
      const lines = head
        .toString('latin1', 0, end)
        .split('\r\n')
        .map((it) => it.split(': ') as [string, string]);
      const status = Number(lines.find(([name]) => name === 'Status')?.[1]?.slice(0, 3) ?? 200);
      response.writeHead(status, Object.fromEntries(lines.filter(([name]) => name !== 'Status')));
      response.write(head.subarray(end + 4));
      head = undefined;
    });
    child.once('close', () => response.end());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
    for (const it of [this.folder, this.#work]) removeTree(it);
  }
}
