/** A plugin or a connector under test: a daemon that has it, added as `ringfence plugin add` and `connector add` do. */
import type { ToolResult } from '../base/call.ts';
import { pause, systemPowers } from '../base/powers.ts';
import type { CallSettings } from '../client/client.ts';
import type { Tool } from '../tools/tool.ts';
import type { TestDaemon } from './daemon.ts';
import type { PlayedService, ServiceRequest } from './played-http.ts';
import { assertContract, type ContractPlace, promisesOf, type ToolPromise } from './tool-contract.ts';

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

/** Waits until the daemon has what was added. Throws with the reason if it is off. */
export async function untilAdded(
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

export async function orClosed<Value>(daemon: TestDaemon, action: () => Promise<Value>): Promise<Value> {
  try {
    return await action();
  } catch (error) {
    await daemon.close();
    throw error;
  }
}
