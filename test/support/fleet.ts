/** A fleet for tests: a real nats-server on loopback, its operator's folder, and daemons that are its nodes. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, type ClientOptions, createClient } from '../../src/client/client.ts';
import { beginCli, endOf, type Run, runCli } from './cli.ts';
import { type DaemonOptions, removeTree, startDaemon, type TestDaemon, temporaryDir } from './daemon.ts';
import type { TestNetwork } from './network.ts';

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

export class TestFleet implements AsyncDisposable {
  readonly folder: string;
  readonly port: number;
  readonly #network: TestNetwork | undefined;
  #bus: ChildProcess | undefined;
  #hub: ChildProcess | undefined;
  #gateway: ChildProcess | undefined;
  readonly #daemons: TestDaemon[] = [];
  readonly #folders = new Set<string>();

  private constructor(folder: string, port: number, network?: TestNetwork) {
    this.folder = folder;
    this.port = port;
    this.#network = network;
  }

  /**
   * Makes a fleet, and starts its bus and its hub. In a network, bus, hub and operator are on the machine `bus`, and each
   * node and gateway is on the machine with its name.
   */
  static async start(network?: TestNetwork): Promise<TestFleet> {
    const fleet = new TestFleet(temporaryDir('fleet'), network ? 4222 : await freePort(), network);
    try {
      const made = await fleet.cli('init', '--host', fleet.#host, '--port', String(fleet.port), '--name', 'test');
      if (made.code !== 0) throw new Error(made.stderr);
      await fleet.startBus();
      await fleet.startHub();
    } catch (error) {
      await fleet[Symbol.asyncDispose]();
      throw error;
    }
    return fleet;
  }

  get #host(): string {
    return this.#network ? 'bus' : 'localhost';
  }

  get url(): string {
    return `nats://${this.#host}:${this.port}`;
  }

  /** How a program is run on a machine of the network. */
  #on(machine: string): { launcher?: string[] } {
    return this.#network ? { launcher: this.#network.launcher(machine) } : {};
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
    return runCli(NOWHERE, ['fleet', ...words, '--dir', this.folder, ...args], this.#on('bus'));
  }

  async startBus(): Promise<ChildProcess> {
    const { launcher = [] } = this.#on('bus');
    const [program, ...words] = [...launcher, 'nats-server', '-c', join(this.folder, 'bus/nats-server.conf')];
    const bus = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#bus = bus;
    let said = '';
    const ready = new Promise<void>((resolve, reject) => {
      bus.stderr.on('data', (chunk: Buffer) => {
        said += chunk;
        if (said.includes('Server is ready')) resolve();
      });
      bus.once('exit', () => reject(new Error(`nats-server ended: ${said}`)));
    });
    await ready;
    return bus;
  }

  get bus(): ChildProcess {
    return this.#bus as ChildProcess;
  }

  async stopBus(): Promise<void> {
    await end(this.#bus);
  }

  async startHub(): Promise<void> {
    const hub = beginCli(NOWHERE, ['fleet', 'hub', '--dir', this.folder, '--json'], this.#on('bus'));
    this.#hub = hub;
    await once(hub.stdout, 'data');
  }

  async stopHub(): Promise<void> {
    await end(this.#hub);
  }

  /** Begins to invite a machine; gives the token, and the operator's program, which waits. Throws what that says if it ends. */
  async invite(name: string, ...args: string[]): Promise<{ token: string; ended: Promise<number | null> }> {
    const words = ['fleet', 'invite', name, '--dir', this.folder, '--wait', '60', ...args];
    const operator = beginCli(NOWHERE, words, this.#on('bus'));
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
    const joined = await this.joinBy(token, stateDir, name);
    await ended;
    return joined;
  }

  joinBy(token: string, stateDir: string, machine = 'bus'): Promise<Run> {
    return runCli({ ...NOWHERE, stateDir }, ['fleet', 'join', '-'], { stdin: token, ...this.#on(machine) });
  }

  /** Starts a daemon that is a node, and waits until it is heard. */
  async node(name: string, options: DaemonOptions = {}, ...args: string[]): Promise<TestDaemon> {
    const stateDir = options.stateDir ?? temporaryDir(`node-${name}`);
    if (!existsSync(join(stateDir, 'fleet/credential.json'))) {
      const joined = await this.join(name, stateDir, ...args);
      if (joined.code !== 0) throw new Error(joined.stderr);
    }
    const words = ['--fleet', this.url, ...(options.args ?? [])];
    const daemon = await startDaemon({ ...options, stateDir, args: words, ...this.#on(name) });
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
    this.#gateway = beginCli(NOWHERE, words, this.#on(name));
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

/** A client of a gateway, which right after its start has not heard all nodes. Throws what the last of some tries says. */
export async function clientOf(
  socket: string,
  options: Omit<ClientOptions, 'socket'> = {},
  triesMax = 20,
): Promise<Client> {
  for (let tries = 0; ; tries++) {
    try {
      return await createClient({ socket, ...options });
    } catch (error) {
      if (tries >= triesMax) throw error;
      await sleep(500);
    }
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
