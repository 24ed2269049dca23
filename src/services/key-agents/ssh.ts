/** Reaches servers of git by ssh, with the keys in the person's ssh agent and the hosts that they know. */
import { existsSync } from 'node:fs';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import type { SshRemotes } from '../../pipeline/execute/keys/key-agents.ts';
import { parseNetworkEntry } from '../../policy/network.ts';
import { findProgram } from '../../sandbox/find-program.ts';
import { connecting } from '../../tools/context/program-pipe.ts';
import type { SshServer } from '../../tools/context/ssh-server.ts';
import { type LendParts, lend } from './lent-program.ts';
import { outputOf } from './program-output.ts';
import { keysIn } from './ssh-agent.ts';

export interface SshSettings {
  /** Absolute path of the socket of the person's agent. */
  readonly agent?: string | undefined;
  /** Absolute paths of the files with the host keys that the person knows, and the machine. */
  readonly knownHosts: readonly string[];
}

/** Path of the agent in the sandbox of a lent program. */
export const AGENT_AT = '/run/person/agent';
const knownAt = (at: number): string => `/run/person/known_hosts${at}`;

/** No file of settings is read, nothing is forwarded, and no program is run but the one that connects. */
const OPTIONS = Object.entries({
  ProxyCommand: 'bash /tmp/connect',
  IdentityAgent: AGENT_AT,
  IdentityFile: 'none',
  PreferredAuthentications: 'publickey',
  BatchMode: 'yes',
  StrictHostKeyChecking: 'yes',
  GlobalKnownHostsFile: 'none',
  UpdateHostKeys: 'no',
  CheckHostIP: 'no',
  VerifyHostKeyDNS: 'no',
  CanonicalizeHostname: 'no',
  ClearAllForwardings: 'yes',
  ControlPath: 'none',
  PermitLocalCommand: 'no',
  LogLevel: 'ERROR',
  ConnectTimeout: '30',
  ServerAliveInterval: '30',
}).flatMap(([name, value]) => ['-o', `${name}=${value}`]);

/** Git takes the last line for an error of the server, and shows it. */
const SCRIPT = `
printf %s "$1" >/tmp/connect; shift
ssh -F none -T -x -a "$@" <&3 >&3 2>/tmp/said && exit
said="ssh: $(tail -c 2000 /tmp/said | tr -cd '[:print:]\\n' | tr '\\n' ' ')"
printf '%04xERR %s' $((\${#said} + 8)) "$said" >&3`;

/** What ssh sends to be connected, from descriptor 3 of /tmp/connect. */
const RELAY = 'cat <&3 & exec cat >&3';

export class Ssh implements SshRemotes {
  readonly #settings: SshSettings;
  readonly #parts: LendParts & { readonly powers: Powers };

  constructor(settings: SshSettings, parts: LendParts & { readonly powers: Powers }) {
    this.#settings = settings;
    this.#parts = parts;
  }

  async hasKey(): Promise<boolean> {
    const { agent } = this.#settings;
    return (
      agent !== undefined && findProgram('ssh') !== undefined && (await keysIn(agent, this.#parts.powers)).length > 0
    );
  }

  async knows({ host, port }: SshServer): Promise<boolean> {
    const name = nameOf(host, port);
    return (await Promise.all(this.#knownHosts.map((file) => isListed(name, file)))).includes(true);
  }

  async assertReachable(server: SshServer): Promise<void> {
    const { user, host, port } = server;
    if (!(await this.hasKey())) throw noKey(host);
    if (await this.knows(server)) return;
    const name = nameOf(host, port);
    const login = `ssh ${port === 22 ? '' : `-p ${port} `}${user}@${host}`;
    throw new ToolError('ACCESS_DENIED', `the host key of ${name} is not among those that the person knows`, {
      suggestion: `Ask the person to run \`${login}\` once and to compare the fingerprint. Aliases of ~/.ssh/config are not read.`,
      details: { reason: 'unknown-host-key', host: name },
    });
  }

  start({ user, host, port, path }: SshServer, program: string, until: AbortSignal): string {
    const { agent = '' } = this.#settings;
    const files = this.#knownHosts.map((path, at) => ({ path, at: knownAt(at) }));
    const known = `UserKnownHostsFile=${files.map((it) => it.at).join(' ')}`;
    const remote = `${program} '${path.replaceAll("'", `'\\''`)}'`;
    return lend(
      {
        script: SCRIPT,
        words: [
          ...[`${connecting(`${host}:${port}`)}${RELAY}`, ...OPTIONS, '-o', known],
          ...['-p', `${port}`, '-l', user, host, remote],
        ],
        places: [{ path: agent, at: AGENT_AT }, ...files],
        // Only a host whose key the person knows is reached, wherever it is.
        network: [{ ...parseNetworkEntry(`${host}:${port}`), private: true }],
        until,
      },
      this.#parts,
    );
  }

  get #knownHosts(): string[] {
    return this.#settings.knownHosts.filter((it) => existsSync(it));
  }
}

/** The name of a server in files of host keys. */
const nameOf = (host: string, port: number): string => (port === 22 ? host : `[${host}]:${port}`);

/** Whether a file names the host, by its name or a hash of it. */
const isListed = async (name: string, file: string): Promise<boolean> =>
  Boolean(await outputOf('ssh-keygen', ['-F', name, '-f', file], {}));

const noKey = (host: string): ToolError =>
  new ToolError('AUTH_REQUIRED', `${host} is reached by ssh, and the person's ssh agent holds no key`, {
    suggestion: 'Ask the person to run `ssh-add`, and to start the daemon where SSH_AUTH_SOCK names the agent.',
    details: { reason: 'no-ssh-key' },
  });
