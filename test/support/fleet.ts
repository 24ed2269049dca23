/** A fleet for tests: a real nats-server on loopback, its operator's folder, and daemons that are its nodes. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beginCli, endOf, type Run, runCli } from './cli.ts';
import { type DaemonOptions, removeTree, startDaemon, type TestDaemon, temporaryDir } from './daemon.ts';

/** Why tests of a fleet can't run here; undefined if they can. */
export const noBus: string | undefined = (() => {
  try {
    execFileSync('nats-server', ['--version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'nats-server is not installed: script/bootstrap --fleet';
  }
})();

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
};

async function reachable(port: number): Promise<void> {
  for (let tries = 0; ; tries++) {
    const socket = connect(port, '127.0.0.1');
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
    });
    socket.destroy();
    if (isOpen) return;
    if (tries > 200) throw new Error(`nats-server does not listen at ${port}`);
    await sleep(50);
  }
}

export class TestFleet implements AsyncDisposable {
  readonly folder: string;
  readonly port: number;
  #bus: ChildProcess | undefined;
  #hub: ChildProcess | undefined;
  #gateway: ChildProcess | undefined;
  readonly #daemons: TestDaemon[] = [];
  readonly #folders = new Set<string>();

  private constructor(folder: string, port: number) {
    this.folder = folder;
    this.port = port;
  }

  /** Makes a fleet, and starts its bus and its hub. */
  static async start(): Promise<TestFleet> {
    const fleet = new TestFleet(temporaryDir('fleet'), await freePort());
    try {
      const made = await fleet.cli('init', '--host', 'localhost', '--port', String(fleet.port), '--name', 'test');
      if (made.code !== 0) throw new Error(made.stderr);
      await fleet.startBus();
      await fleet.startHub();
    } catch (error) {
      await fleet[Symbol.asyncDispose]();
      throw error;
    }
    return fleet;
  }

  get url(): string {
    return `nats://localhost:${this.port}`;
  }

  /** Runs a verb of the operator. */
  cli(verb: string, ...args: string[]): Promise<Run> {
    return this.#run(verb, args);
  }

  async json<T>(verb: string, ...args: string[]): Promise<T> {
    const { stdout, stderr } = await this.cli(verb, ...args, '--json');
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout) as T;
  }

  #run(verb: string, args: readonly string[]): Promise<Run> {
    const words = verb.split(' ');
    return runCli(NOWHERE, ['fleet', ...words, '--dir', this.folder, ...args]);
  }

  async startBus(): Promise<ChildProcess> {
    this.#bus = spawn('nats-server', ['-c', join(this.folder, 'bus/nats-server.conf')], { stdio: 'ignore' });
    await reachable(this.port);
    return this.#bus;
  }

  get bus(): ChildProcess {
    return this.#bus as ChildProcess;
  }

  async stopBus(): Promise<void> {
    await end(this.#bus);
  }

  async startHub(): Promise<void> {
    const hub = beginCli(NOWHERE, ['fleet', 'hub', '--dir', this.folder, '--json']);
    this.#hub = hub;
    await once(hub.stdout, 'data');
  }

  async stopHub(): Promise<void> {
    await end(this.#hub);
  }

  /** Begins to invite a machine; gives the token, and the operator's program, which waits. Throws what that says if it ends. */
  async invite(name: string, ...args: string[]): Promise<{ token: string; ended: Promise<number | null> }> {
    const operator = beginCli(NOWHERE, ['fleet', 'invite', name, '--dir', this.folder, '--wait', '60', ...args]);
    const ended = endOf(operator);
    let said = '';
    operator.stderr.on('data', (chunk: Buffer) => (said += chunk));
    const token = await Promise.race([once(operator.stdout, 'data'), ended]);
    if (!Array.isArray(token)) throw new Error(said);
    return { token: String(token[0]).trim(), ended };
  }

  /** Lets a state directory become a node of the fleet, by a token. */
  async join(name: string, stateDir: string, ...args: string[]): Promise<Run> {
    const { token, ended } = await this.invite(name, ...args);
    const joined = await this.joinBy(token, stateDir);
    await ended;
    return joined;
  }

  joinBy(token: string, stateDir: string): Promise<Run> {
    return runCli({ ...NOWHERE, stateDir }, ['fleet', 'join', '-'], { stdin: token });
  }

  /** Starts a daemon that is a node, and waits until it is heard. */
  async node(name: string, options: DaemonOptions = {}, ...args: string[]): Promise<TestDaemon> {
    const stateDir = options.stateDir ?? temporaryDir(`node-${name}`);
    if (!existsSync(join(stateDir, 'fleet/credential.json'))) {
      const joined = await this.join(name, stateDir, ...args);
      if (joined.code !== 0) throw new Error(joined.stderr);
    }
    const daemon = await startDaemon({ ...options, stateDir, args: ['--fleet', this.url, ...(options.args ?? [])] });
    this.#daemons.push(daemon);
    this.#folders.add(stateDir);
    const isHere = async () =>
      (await this.json<{ name: string; here: boolean }[]>('nodes')).some((it) => it.name === name && it.here);
    while (!(await isHere()));
    return daemon;
  }

  /** Starts a gateway; gives the socket for its clients. */
  async gateway(name = 'gateway', ...args: string[]): Promise<string> {
    const stateDir = temporaryDir('gateway');
    this.#folders.add(stateDir);
    const joined = await this.join(name, stateDir, '--gateway');
    if (joined.code !== 0) throw new Error(joined.stderr);
    const words = ['gateway', '--fleet', this.url, '--state', stateDir, '--json', ...args];
    this.#gateway = beginCli(NOWHERE, words);
    let said = '';
    this.#gateway.stderr?.on('data', (chunk: Buffer) => (said += chunk));
    const ready = await Promise.race([once(this.#gateway.stdout as NodeJS.EventEmitter, 'data'), endOf(this.#gateway)]);
    if (!Array.isArray(ready)) throw new Error(said);
    return join(stateDir, 'gateway.sock');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await end(this.#gateway);
    for (const it of this.#daemons) await it[Symbol.asyncDispose]();
    for (const it of this.#folders) removeTree(it);
    await this.stopHub();
    await this.stopBus();
    removeTree(this.folder);
  }
}

/** For verbs that need no daemon. */
const NOWHERE = { stateDir: '/nonexistent', socket: '/nonexistent', workspace: '/' };

async function end(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** The process of a daemon that links it to the fleet. */
export function linkOf({ pid }: TestDaemon): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
  const found = children.find((it) => readFileSync(`/proc/${it}/cmdline`, 'utf8').includes('fleet-node'));
  if (found === undefined) throw new Error(`process ${pid} has no link to a fleet`);
  return found;
}
