/** Starts a real daemon for a test, in a process and on a workspace of its own; closing it removes both. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { ToolResult } from '../base/call.ts';
import { isInside } from '../base/paths.ts';
import { systemPowers } from '../base/powers.ts';
import { entry } from '../base/runtime.ts';
import { type CallSettings, type Client, type ClientOptions, createClient } from '../client/client.ts';
import { type ApprovalScript, ScriptedApprovals } from './approval-script.ts';
import { DaemonChannel } from './daemon-channel.ts';
import type { Confinement } from './messages.ts';
import type { ExpectedProcess, ProcessMatcher, ProcessScript } from './processes.ts';

export interface TestDaemonOptions {
  /** Content of the workspace by path. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  /** An existing workspace, which is left as it is at the end; a new one when absent. */
  readonly workspace?: string;
  /** Text of a policy file; the daemon's own default when absent. */
  readonly policy?: string;
  /** The config file, as an object. */
  readonly config?: object;
  /** Answers to questions; each is denied when absent. */
  readonly approvals?: ApprovalScript;
  /** Time at which the daemon's clock begins; now when absent. */
  readonly now?: Date | string | number;
  /** Further variables of the daemon's environment, of which it has only PATH. */
  readonly env?: Readonly<Record<string, string>>;
}

export type ConnectOptions = Omit<Partial<ClientOptions>, 'socket' | 'token'>;

/** The daemon's own clock, by which questions expire, caches age and rates are counted. */
export interface TestClock {
  /** Milliseconds since the epoch. */
  now(): Promise<number>;
  /** Moves the clock, as if the machine had slept for `ms`. Resolves when the timers that were due have fired. */
  advance(ms: number): Promise<void>;
}

export class TestDaemon implements AsyncDisposable {
  readonly workspace: string;
  /** The daemon's state directory: its record, its tokens. */
  readonly stateDir: string;
  readonly socket: string;
  /** How calls are confined on this machine, and what of it is missing. */
  readonly confinement: Confinement;
  /** An agent's session. */
  readonly client: Client;
  /** A session of the person who runs the daemon. */
  readonly operator: Client;
  readonly approvals: ScriptedApprovals;
  readonly clock: TestClock;
  readonly #parts: Started;
  #closing: Promise<void> | undefined;

  /** Use `startTestDaemon`. */
  constructor(parts: Started) {
    this.#parts = parts;
    const { place, confinement, client, operator, approvals, channel } = parts;
    this.workspace = place.workspace;
    this.stateDir = place.stateDir;
    this.socket = place.socket;
    this.confinement = confinement;
    this.client = client;
    this.operator = operator;
    this.approvals = approvals;
    this.clock = {
      now: () => channel.advance(0),
      advance: async (ms) => void (await channel.advance(ms)),
    };
  }

  /** Calls a tool as the agent. Never throws for a call that fails. */
  call(tool: string, input: object = {}, settings: CallSettings = {}): Promise<ToolResult> {
    return this.client.call(tool, input, settings);
  }

  /** Opens a further session, which the test closes: of an agent, or with `role: 'operator'`. */
  connect(options: ConnectOptions = {}): Promise<Client> {
    return connectTo(this.#parts.place, options);
  }

  /**
   * Answers a process of a command in place of running it, the given number of times (1 if absent). From the first one on
   * a process that no test expects fails its call; so does `close`, also for one that did not come.
   */
  expectProcess(matcher: ProcessMatcher, answer: ProcessScript = {}, times = 1): ExpectedProcess {
    return this.#parts.channel.processes.expect(matcher, answer, times);
  }

  /** Writes files into the workspace, as a person would beside the daemon. */
  write(files: Readonly<Record<string, string | Uint8Array>>): void {
    assertInside(files);
    writeFiles(this.workspace, files);
  }

  /** What the daemon logged so far, as JSON lines. */
  log(): string {
    return this.#parts.channel.log();
  }

  /** Ends the daemon and removes what it was made of. Throws the error of a script, and for processes that came unexpected, or not. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const { client, operator, approvals, channel, place } = this.#parts;
    approvals[Symbol.dispose]();
    await Promise.all([client[Symbol.asyncDispose](), operator[Symbol.asyncDispose]()]);
    await channel.end();
    await removeTree(place.folder);
    approvals.assertNoFailure();
    channel.processes.assertMet();
  }
}

interface Place {
  /** Holds everything else. */
  readonly folder: string;
  readonly stateDir: string;
  readonly socket: string;
  readonly workspace: string;
  readonly policy: string;
  readonly config: string;
}

interface Started {
  readonly place: Place;
  readonly channel: DaemonChannel;
  readonly confinement: Confinement;
  readonly client: Client;
  readonly operator: Client;
  readonly approvals: ScriptedApprovals;
}

/** Starts a daemon, and two sessions. Rejects with the daemon's own message if it does not start. */
export async function startTestDaemon(options: TestDaemonOptions = {}): Promise<TestDaemon> {
  const place = makePlace(options);
  const channel = new DaemonChannel(begin(place, options), systemPowers());
  try {
    const confinement = await channel.started;
    const [client, operator] = await Promise.all([connectTo(place, {}), connectTo(place, { role: 'operator' })]);
    const approvals = new ScriptedApprovals(options.approvals ?? []);
    await approvals.begin(operator);
    return new TestDaemon({ place, channel, confinement, client, operator, approvals });
  } catch (error) {
    await channel.end();
    await removeTree(place.folder);
    throw error;
  }
}

/** Adds nothing to the policy that is built in. */
const DEFAULT_POLICY = 'version: 1\n';

function makePlace({ workspace, files = {}, policy = DEFAULT_POLICY, config = {} }: TestDaemonOptions): Place {
  assertInside(files);
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-test-'));
  const stateDir = join(folder, 'state');
  const place = {
    folder,
    stateDir,
    socket: join(stateDir, 'd.sock'),
    workspace: workspace ?? join(folder, 'workspace'),
    policy: join(folder, 'policy.yaml'),
    config: join(folder, 'config.yaml'),
  };
  mkdirSync(stateDir, { mode: 0o700 });
  if (workspace === undefined) mkdirSync(place.workspace);
  writeFiles(place.workspace, files);
  writeFileSync(place.policy, policy, { mode: 0o600 });
  // JSON is YAML.
  writeFileSync(place.config, JSON.stringify(config), { mode: 0o600 });
  return place;
}

/** Throws if a path leads out of the workspace. */
function assertInside(files: object): void {
  const outside = Object.keys(files).find((it) => !isInside('/workspace', join('/workspace', it)));
  if (outside !== undefined) throw new RangeError(`${outside} is not in the workspace`);
}

function writeFiles(workspace: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [path, content] of Object.entries(files)) {
    const at = join(workspace, path);
    mkdirSync(dirname(at), { recursive: true });
    writeFileSync(at, content);
  }
}

function begin({ stateDir, socket, policy, workspace, config }: Place, { now, env }: TestDaemonOptions): ChildProcess {
  const args = ['--state', stateDir, '--socket', socket, '--policy', policy, '--workspace', workspace];
  if (now !== undefined) args.push('--now', `${new Date(now).getTime()}`);
  return spawn(process.execPath, [entry('testing/daemon-process'), ...args], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent', RINGFENCE_CONFIG: config, ...env },
  });
}

function connectTo({ socket, workspace, stateDir }: Place, options: ConnectOptions): Promise<Client> {
  const token = options.role === 'operator' && readFileSync(join(stateDir, 'operator.token'), 'utf8').trim();
  return createClient({ workspace, ...options, socket, ...(token && { token }) });
}

/** Node can't remove the empty folders without permissions that masks leave behind; `rm` can. */
const removeTree = (folder: string) => promisify(execFile)('rm', ['-rf', '--', folder]);
