/** What the database servers of tests share: a folder, a user who is not root, a free port, and certificates of an own authority. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isBelow, processesWith } from './daemon.ts';

/** Servers refuse to run as root. */
export const SERVER_USER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** The newest of the programs that a pattern names; undefined if there is none. */
export const newestOf = (pattern: string): string | undefined => globSync(pattern).sort().at(-1);

export interface ServerFolder extends Disposable {
  readonly path: string;
  /** Path of a file with the authority's certificate. */
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
}

/** A folder of the server's user, with a certificate for 127.0.0.1 and localhost. */
export function makeServerFolder(): ServerFolder {
  const path = mkdtempSync(join(tmpdir(), 'ringfence-db-'));
  const [ca, key, certificate] = ['ca.pem', 'server.key', 'server.pem'].map((it) => join(path, it)) as [
    string,
    string,
    string,
  ];
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: path, stdio: 'ignore' });
  const request = ['req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  openssl(...request, '-x509', '-keyout', 'ca.key', '-out', ca, '-days', '2', '-subj', '/CN=test authority');
  openssl(...request, '-keyout', key, '-out', 'server.csr', '-subj', '/CN=localhost');
  writeFileSync(join(path, 'names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n');
  const signed = ['-CA', ca, '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names'];
  openssl('x509', '-req', '-in', 'server.csr', '-out', certificate, ...signed);
  give(path, key, certificate, ca);
  chmodSync(key, 0o600);
  return { path, ca, key, certificate, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Gives paths to the server's user. */
export function give(...paths: readonly string[]): void {
  const { uid, gid } = SERVER_USER as { uid?: number; gid?: number };
  if (uid !== undefined && gid !== undefined) for (const it of paths) chownSync(it, uid, gid);
}

export function makeFolder(path: string): string {
  mkdirSync(path, { mode: 0o700 });
  give(path);
  return path;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

export interface RunningServer {
  readonly process: ChildProcess;
  /** Ends the server, and resolves when it is gone. */
  end(): Promise<void>;
}

/** Starts a server, and waits until `isUp` resolves. Throws what the server wrote if it never is. */
export async function startServer(
  program: string,
  args: readonly string[],
  { log, isUp }: { log: string; isUp: () => Promise<void> },
): Promise<RunningServer> {
  const child = spawn(program, args, { stdio: 'ignore', ...SERVER_USER });
  const exited = once(child, 'exit');
  const end = async () => {
    child.kill('SIGQUIT');
    await exited;
  };
  for (let tries = 0; tries < 200; tries += 1) {
    try {
      await isUp();
      return { process: child, end };
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    if (child.exitCode !== null) break;
  }
  child.kill('SIGKILL');
  throw new Error(`${program} did not start: ${readFileSync(log, 'utf8').slice(-2000)}`);
}

/** The most resident memory that a process had at once, in MiB. */
export function peakMemoryOf(pid: number): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

/** Pid of the Node process below a daemon that is logged in to a database server. */
export function serverProcessOf(daemonPid: number): number {
  const [found, ...others] = processesWith('database/process').filter(
    (pid) => readlinkSync(`/proc/${pid}/exe`) === process.execPath && isBelow(pid, daemonPid),
  );
  if (found === undefined || others.length > 0) throw new Error('not one process of a database server');
  return found;
}
