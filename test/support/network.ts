/**
 * Machines with a network of their own: network namespaces on one switch, whose cables a test can pull. No packet leaves
 * them. Processes, files and Unix sockets are those of the test's machine.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { removeTree, temporaryDir } from './daemon.ts';

/** Makes a user namespace where the tests don't run as root. */
const NEW = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
const ENTER = process.getuid?.() === 0 ? [] : ['--user', '--preserve-credentials'];

/** Why tests can't have networks of their own here; undefined if they can. */
export const noNetwork: string | undefined = (() => {
  const script = 'ip link add br0 type bridge && ip link add v0 type veth peer name v1 && tc qdisc';
  try {
    execFileSync('unshare', [...NEW, '--net', '--mount', 'sh', '-c', script], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'network namespaces can not be made here: they need root or user namespaces, `ip` and `tc`';
  }
})();

const SWITCH = 'br0';
const addressOf = (at: number): string => `10.99.0.${at + 1}`;

interface Machine {
  readonly name: string;
  /** A process that keeps the namespaces of the machine. */
  readonly holder: number;
}

export class TestNetwork implements AsyncDisposable {
  readonly #folder = temporaryDir('network');
  readonly #machines: Machine[] = [];

  /** Makes machines that reach each other by their names; the first one has the switch. */
  static async start(names: readonly [string, ...string[]]): Promise<TestNetwork> {
    const network = new TestNetwork();
    try {
      const hosts = names.map((name, at) => `${addressOf(at)} ${name}\n`).join('');
      writeFileSync(join(network.#folder, 'hosts'), `127.0.0.1 localhost\n${hosts}`);
      for (const [at, name] of names.entries()) await network.#add(name, at);
    } catch (error) {
      await network[Symbol.asyncDispose]();
      throw error;
    }
    return network;
  }

  /** Program and arguments that run another program on a machine. */
  launcher(name: string): string[] {
    return ['nsenter', '--target', String(this.#machine(name).holder), ...ENTER, '--net', '--mount', '--'];
  }

  /** Pulls the cable of a machine: packets to and from it are lost, and nobody is told. */
  cut(name: string): void {
    this.#onSwitch(`ip link set ${cableOf(this.#machine(name))} down`);
  }

  heal(name: string): void {
    this.#onSwitch(`ip link set ${cableOf(this.#machine(name))} up`);
  }

  /** Makes the cable of a machine so slow that it takes no more than so many bytes a second from it. */
  slow(name: string, bytesPerSecond: number): void {
    const shape = `rate ${8 * bytesPerSecond}bit burst 32k latency 400ms`;
    this.#on(this.#machine(name), `tc qdisc replace dev eth0 root tbf ${shape}`);
  }

  fast(name: string): void {
    this.#on(this.#machine(name), 'tc qdisc del dev eth0 root');
  }

  async #add(name: string, at: number): Promise<void> {
    const [first] = this.#machines;
    // The user namespace of the first machine may make the others.
    const [inside, isOwner] = first ? [this.launcher(first.name), []] : [[], NEW];
    const script = `mount --bind ${join(this.#folder, 'hosts')} /etc/hosts && ip link set lo up && echo ready && exec sleep infinity`;
    const [program = '', ...words] = [...inside, 'unshare', ...isOwner, '--net', '--mount', 'sh', '-c', script];
    const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] });
    const machine = { name, holder: child.pid as number };
    this.#machines.push(machine);
    const [said] = (await Promise.race([once(child.stdout, 'data'), once(child, 'exit')])) as [unknown];
    if (!String(said).startsWith('ready')) throw new Error(`the machine ${name} did not start`);
    if (first) {
      const cable = cableOf(machine);
      this.#onSwitch(
        `ip link add ${cable} type veth peer name eth0 netns ${machine.holder} && ip link set ${cable} master ${SWITCH} up`,
      );
      this.#on(machine, `ip addr add ${addressOf(at)}/24 dev eth0 && ip link set eth0 up`);
    } else {
      this.#onSwitch(
        `ip link add ${SWITCH} type bridge && ip addr add ${addressOf(at)}/24 dev ${SWITCH} && ip link set ${SWITCH} up`,
      );
    }
  }

  #machine(name: string): Machine {
    const found = this.#machines.find((it) => it.name === name);
    if (!found) throw new Error(`there is no machine ${name}`);
    return found;
  }

  #onSwitch(script: string): void {
    this.#on(this.#machines[0] as Machine, script);
  }

  #on({ name }: Machine, script: string): void {
    const [program, ...words] = [...this.launcher(name), 'sh', '-c', script];
    execFileSync(program, words, { stdio: ['ignore', 'ignore', 'inherit'] });
  }

  /** Ends the machines; their cables go with them. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const { holder } of this.#machines.reverse()) process.kill(holder, 'SIGKILL');
    removeTree(this.#folder);
  }
}

const cableOf = ({ holder }: Machine): string => `c${holder}`;
