/** Provides the pinned plugins as tools of a running daemon; reads them at start and after every change. */
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Catalogue } from '../../tools/catalogue.ts';
import type { Plugin } from './package.ts';
import { PinError } from './pin-error.ts';
import type { PinFolder } from './pin-folder.ts';
import { pinnedPlugins, readPin } from './pinned-plugins.ts';
import { toToolset } from './toolset.ts';

export interface PluginSourceOptions {
  readonly stateDir: string;
  readonly catalogue: Catalogue;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Called for each plugin that was loaded, replaced or removed. */
  onChange(status: PluginStatus): void;
}

export interface PluginStatus {
  readonly name: string;
  /** `removed` if it is no longer pinned; `off` if it is pinned but refused. */
  readonly state: 'on' | 'off' | 'removed';
  readonly version?: string;
  readonly sha256?: string;
  readonly isolation?: 'isolate' | 'compartment';
  readonly tools: readonly string[];
  /** Why the plugin is off. */
  readonly problem?: string;
}

/** Disposing stops the watching. */
export class PluginSource implements Disposable {
  readonly #options: PluginSourceOptions;
  readonly #statuses = new Map<string, PluginStatus>();
  readonly #pins: PinFolder;
  readonly #watching: ReturnType<PinFolder['watch']>;

  constructor(options: PluginSourceOptions) {
    this.#options = options;
    const { stateDir, limits, powers } = options;
    this.#pins = pinnedPlugins(stateDir, limits);
    this.#watching = this.#pins.watch(() => this.reload(), { powers, delayMs: limits.pluginReloadMs });
    options.catalogue.lookFirst(() => this.#watching.look());
    // Runs after the watch has begun, so that no addition is missed in between.
    this.reload();
  }

  /** All pinned plugins in order of their names. */
  get status(): PluginStatus[] {
    this.#watching.look();
    return [...this.#statuses.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Reads all plugins; unchanged ones stay as they are. */
  reload(): void {
    const { limits } = this.#options;
    const names = this.#pins.names();
    for (const name of this.#statuses.keys()) if (!names.includes(name)) this.#remove(name);
    for (const [at, name] of names.entries()) {
      if (at < limits.pluginsMax) this.#loadPlugin(name);
      else this.#refuse(name, `there are more than ${limits.pluginsMax} plugins`);
    }
  }

  [Symbol.dispose](): void {
    this.#watching[Symbol.dispose]();
  }

  #loadPlugin(name: string): void {
    let plugin: Plugin;
    try {
      plugin = readPin(this.#pins, name, this.#options.limits);
    } catch (error) {
      if (!(error instanceof PinError)) throw error;
      return this.#refuse(name, error.message);
    }
    const { manifest, sha256 } = plugin;
    const before = this.#statuses.get(name);
    if (before?.state === 'on' && before.sha256 === sha256) return;
    const tools = toToolset(plugin);
    try {
      this.#options.catalogue.set(sourceOf(name), tools);
    } catch (error) {
      return this.#refuse(name, `${(error as Error).message}; remove one of the two`);
    }
    const { version, isolation } = manifest;
    this.#reportStatus({ name, state: 'on', version, sha256, isolation, tools: [...tools.keys()] });
  }

  /** Turns a plugin off and removes its tools. */
  #refuse(name: string, problem: string): void {
    this.#options.catalogue.set(sourceOf(name), new Map());
    if (this.#statuses.get(name)?.problem !== problem) this.#reportStatus({ name, state: 'off', tools: [], problem });
  }

  #remove(name: string): void {
    this.#options.catalogue.set(sourceOf(name), new Map());
    this.#reportStatus({ name, state: 'removed', tools: [] });
    this.#statuses.delete(name);
  }

  #reportStatus(status: PluginStatus): void {
    const { powers, onChange } = this.#options;
    this.#statuses.set(status.name, status);
    const { name, state, version, sha256, problem } = status;
    if (problem === undefined) powers.log.info({ plugin: name, version, sha256 }, `plugin ${name} is ${state}`);
    else powers.log.warn({ plugin: name, problem }, `plugin ${name} is off`);
    onChange(status);
  }
}

const sourceOf = (name: string): string => `plugin ${name}`;
