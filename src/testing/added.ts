/** A plugin or a connector under test: a daemon that has it, added as `ringfence plugin add` and `connector add` do. */
import { readFileSync } from 'node:fs';
import type { ToolResult } from '../base/call.ts';
import { defaultLimits as limits } from '../base/limits.ts';
import { pause, systemPowers } from '../base/powers.ts';
import type { CallSettings } from '../client/client.ts';
import {
  CHOICES,
  type Connector,
  FILE,
  secretsOf,
  secretUrlsOf,
  toConnector,
} from '../services/connectors/connector.ts';
import { pinnedConnectors } from '../services/connectors/pinned-connectors.ts';
import { presetText } from '../services/connectors/presets.ts';
import { toToolset as connectorTools } from '../services/connectors/toolset.ts';
import { PinError } from '../services/pinned/pin-error.ts';
import { problemsOf } from '../services/plugins/examine.ts';
import { readPlugin } from '../services/plugins/package.ts';
import { pinnedPlugins } from '../services/plugins/pinned-plugins.ts';
import { toToolset as pluginTools } from '../services/plugins/toolset.ts';
import { bindSecret, storeSecret } from '../services/secrets/secret-files.ts';
import { hostOf } from '../services/secrets/secrets.ts';
import { toolsOf } from '../tools/registry.ts';
import type { Tool } from '../tools/tool.ts';
import { startDaemon, type TestDaemon, type TestDaemonOptions, type TestMachine } from './daemon.ts';
import { PlayedService, type ServiceAnswer, type ServiceRequest } from './played-http.ts';
import { assertContract, type ContractPlace, promisesOf, type ToolPromise } from './tool-contract.ts';

const ALLOW_SERVICES = 'tiers:\n  external_api: { decision: allow }\n';
/** Milliseconds between two looks at whether the daemon has what was added. */
const LOOK_MS = 5;

/** A plugin or connector under test, in a daemon of its own. */
export class Added implements AsyncDisposable {
  /** What its tools are called, before `__`. */
  readonly name: string;
  /** Names of its tools. */
  readonly tools: readonly string[];
  readonly daemon: TestDaemon;
  readonly #tools: readonly Tool[];
  readonly #service: PlayedService | undefined;

  constructor({ name, tools, daemon, service }: AddedParts) {
    this.name = name;
    this.tools = tools.map((it) => it.name);
    this.daemon = daemon;
    this.#tools = tools;
    this.#service = service;
  }

  /** Requests that a connector's service got, in the order of their arrival. */
  get requests(): readonly ServiceRequest[] {
    return this.#service?.requests ?? [];
  }

  /** Calls a tool by its name in the plugin or connector: `find` for `notes__find`. */
  call(tool: string, input: object = {}, settings: CallSettings = {}): Promise<ToolResult> {
    return this.daemon.call(`${this.name}__${tool}`, input, settings);
  }

  /** The promises of its tools, to declare a test for each. */
  promises({ prepare }: Pick<ContractPlace, 'prepare'> = {}): ToolPromise[] {
    const place = this.#place(prepare);
    return this.#tools.flatMap((tool) =>
      promisesOf(tool, place).map(({ title, check }) => ({ title: `${tool.name} ${title}`, check })),
    );
  }

  /** Checks all promises of its tools. Throws one error that names each that was not kept. */
  assertContract({ prepare }: Pick<ContractPlace, 'prepare'> = {}): Promise<void> {
    return assertContract(this.#tools, this.#place(prepare));
  }

  async close(): Promise<void> {
    await this.daemon.close();
    await this.#service?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #place(prepare: ContractPlace['prepare']): ContractPlace {
    return { client: () => this.daemon.client, prepare };
  }
}

interface AddedParts {
  readonly name: string;
  readonly tools: readonly Tool[];
  readonly daemon: TestDaemon;
  readonly service?: PlayedService | undefined;
}

/** Starts a daemon with the plugin of a folder. Throws PinError with every reason why it would not be taken. */
export async function addPlugin(folder: string, options: TestDaemonOptions, machine: TestMachine): Promise<Added> {
  const plugin = readPlugin(folder, limits);
  const problems = await problemsOf(plugin);
  if (problems.length > 0) throw new PinError(problems);
  const daemon = await startDaemon(options, machine);
  return orClosed(daemon, async () => {
    const { name } = plugin.manifest;
    pinnedPlugins(daemon.stateDir, limits).add(name, plugin.files, systemPowers().now());
    await untilAdded(daemon, { kind: 'plugins', name });
    return new Added({ name, tools: toolsOf(pluginTools(plugin)), daemon });
  });
}

export interface ConnectorTestOptions extends TestDaemonOptions {
  /** Plays the service: what it answers to a request. */
  readonly service: (request: ServiceRequest) => ServiceAnswer | Promise<ServiceAnswer>;
  /** Values of secrets by name; invented ones when absent. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Whether the secrets stand for real accounts. */
  readonly live?: boolean;
}

/**
 * Starts a daemon with the connector of a file or a preset, whose service is played on this machine. Throws
 * PinError with every reason why it would not be taken.
 */
export async function addConnector(
  target: string,
  { service: play, secrets = {}, live, ...options }: ConnectorTestOptions,
  machine: TestMachine,
): Promise<Added> {
  const text = presetText(target, limits) ?? readFileSync(target, 'utf8');
  const original = toConnector({ [FILE]: text }, limits, target);
  const service = await PlayedService.start(play);
  try {
    const base = `${service.url}${new URL(original.base).pathname.replace(/\/$/, '')}`;
    const choices = { base, private: true, live };
    const connector = toConnector({ [FILE]: text, [CHOICES]: JSON.stringify(choices) }, limits, target);
    assertPlayed(connector, service);
    const daemon = await startDaemon({ policy: ALLOW_SERVICES, ...options }, machine);
    return await orClosed(daemon, async () => {
      const { name, files } = connector;
      setSecrets(connector, daemon, { secrets, host: hostOf(new URL(base)) });
      pinnedConnectors(daemon.stateDir, limits).add(name, files, systemPowers().now());
      await untilAdded(daemon, { kind: 'connectors', name });
      const tools = toolsOf(connectorTools(connector, { assertConfigured() {} }));
      return new Added({ name, tools, daemon, service });
    });
  } catch (error) {
    await service.close();
    throw error;
  }
}

/** Throws PinError if secrets would go to another service than the played one. */
function assertPlayed(connector: Connector, { url }: PlayedService): void {
  const elsewhere = secretUrlsOf(connector).find((it) => !it.startsWith(url));
  if (elsewhere !== undefined)
    throw new PinError([
      `${connector.name} signs in at ${elsewhere} (oauth2_client), which a test can't play; test it with auth: bearer`,
    ]);
}

function setSecrets(
  connector: Connector,
  { stateDir }: TestDaemon,
  { secrets, host }: { secrets: Readonly<Record<string, string>>; host: string },
): void {
  for (const { name } of secretsOf(connector)) {
    storeSecret(stateDir, { name, value: secrets[name] ?? `invented-${name}-for-this-test` }, limits);
    bindSecret(stateDir, name, [host]);
  }
}

/** Waits until the daemon has what was added. Throws with the reason if it is off. */
async function untilAdded(
  { operator }: TestDaemon,
  { kind, name }: { kind: 'plugins' | 'connectors'; name: string },
): Promise<void> {
  for (;;) {
    const status = (await operator.request('status', {})) as Record<string, { name: string; problem?: string }[]>;
    const found = status[kind]?.find((it) => it.name === name);
    if (found?.problem !== undefined) throw new Error(`${name} is off: ${found.problem}`);
    if (found) return;
    await pause(LOOK_MS, systemPowers());
  }
}

async function orClosed<Value>(daemon: TestDaemon, action: () => Promise<Value>): Promise<Value> {
  try {
    return await action();
  } catch (error) {
    await daemon.close();
    throw error;
  }
}
