/** A person's ssh: a real server on loopback, an agent with a key, and the host keys that the person knows. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { removeTree, temporaryDir } from './daemon.ts';

const SSHD = '/usr/sbin/sshd';

/** Why there is no server to be had; undefined if there is. */
export const missingSshd = existsSync(SSHD) ? undefined : 'no sshd: script/bootstrap --ssh';

export class SshServer implements AsyncDisposable {
  /** The person's home, with `.ssh/known_hosts`. */
  readonly home = temporaryDir('ssh');
  readonly agent = join(this.home, 'agent');
  /** Text of the private key's file that nothing else has. */
  readonly secret: string;
  readonly publicKey: string;
  readonly port: number;
  readonly #children: ChildProcess[] = [];

  private constructor(port: number) {
    this.port = port;
    mkdirSync(join(this.home, '.ssh'));
    keygen(join(this.home, 'host'), 'host');
    keygen(join(this.home, 'person'), 'person@home');
    this.publicKey = readFileSync(join(this.home, 'person.pub'), 'utf8').trim();
    this.secret = readFileSync(join(this.home, 'person'), 'utf8').split('\n')[2] as string;
    writeFileSync(join(this.home, 'authorized_keys'), `${this.publicKey}\n`);
    this.know('host');
  }

  static async start(): Promise<SshServer> {
    const server = new SshServer(await freePort());
    const { home, port } = server;
    // sshd separates its rights in this folder where it is started as root.
    if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true });
    const options = {
      Port: port,
      ListenAddress: '127.0.0.1',
      HostKey: join(home, 'host'),
      AuthorizedKeysFile: join(home, 'authorized_keys'),
      PidFile: 'none',
      StrictModes: 'no',
      UsePAM: 'no',
      PasswordAuthentication: 'no',
    };
    const words = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    server.#run(SSHD, ['-D', '-e', '-f', '/dev/null', ...words], /Server listening/);
    server.#run('ssh-agent', ['-D', '-a', server.agent], /SSH_AUTH_SOCK/);
    await Promise.all(server.#ready);
    server.addKey();
    return server;
  }

  readonly #ready: Promise<unknown>[] = [];

  #run(program: string, words: string[], says: RegExp): void {
    const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#children.push(child);
    this.#ready.push(
      new Promise<void>((resolve, reject) => {
        let said = '';
        const hear = (chunk: Buffer) => {
          said += chunk;
          if (says.test(said)) resolve();
        };
        child.stdout.on('data', hear);
        child.stderr.on('data', hear);
        child.once('exit', () => reject(new Error(`${program} ended: ${said}`)));
      }),
    );
  }

  /** Variables of the person's daemon. */
  get environment(): Record<string, string> {
    return { HOME: this.home, SSH_AUTH_SOCK: this.agent };
  }

  /** A remote by ssh for an absolute path. */
  remote(path: string): string {
    return `ssh://${userInfo().username}@127.0.0.1:${this.port}${path}`;
  }

  /** Has the person know the server by a key of this name in the home; by none without a name. */
  know(key?: string): void {
    const line = key && `[127.0.0.1]:${this.port} ${readFileSync(join(this.home, `${key}.pub`), 'utf8')}`;
    writeFileSync(join(this.home, '.ssh/known_hosts'), line ?? '');
  }

  /** Adds a key of the home to the agent. */
  addKey(name = 'person'): void {
    this.#sshAdd(join(this.home, name));
  }

  removeKeys(): void {
    this.#sshAdd('-D');
  }

  #sshAdd(word: string): void {
    execFileSync('ssh-add', ['-q', word], {
      env: { PATH: process.env.PATH, SSH_AUTH_SOCK: this.agent },
      stdio: 'ignore',
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const it of this.#children) {
      const ended = once(it, 'exit');
      it.kill('SIGTERM');
      await ended;
    }
    removeTree(this.home);
  }
}

export const keygen = (file: string, comment: string): void =>
  void execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', comment, '-f', file]);

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
