/** The pinned plugins as tools of a running daemon: read when it starts and whenever one is added, removed or changed. */
import { type FSWatcher, watch } from 'node:fs';
import type { Limits } from '../limits.ts';
import type { Powers, Timer } from '../powers.ts';
import type { Catalogue } from '../tools/catalogue.ts';
import { type Plugin, PluginError } from './package.ts';
import { openPins, pinnedNames, readPin } from './pins.ts';
import { toToolset } from './toolset.ts';

export interface PluginSourceOptions {
  readonly stateDir: string;
  readonly catalogue: Catalogue;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Told of each plugin that came into force, was replaced or is gone. */
  onChange(status: PluginStatus): void;
}

export interface PluginStatus {
  readonly name: string;
  /** `removed` where it is no more; `off` where it is pinned and not taken. */
  readonly state: 'on' | 'off' | 'removed';
  readonly version?: string;
  readonly sha256?: string;
  readonly isolation?: 'isolate' | 'compartment';
  readonly tools: readonly string[];
  /** Why it is off. */
  readonly problem?: string;
}

/** Disposing it ends the watching. */
export class PluginSource implements Disposable {
  readonly #options: PluginSourceOptions;
  readonly #known = new Map<string, PluginStatus>();
  #watcher: FSWatcher | undefined;
  #timer: Timer | undefined;
  #disposed = false;

  constructor(options: PluginSourceOptions) {
    this.#options = options;
    const { stateDir, powers } = options;
    const folder = openPins(stateDir);
    const failed = (error: unknown) => {
      this.#watcher?.close();
      powers.log.warn({ folder, error: `${error as Error}` }, 'changes of plugins are not noticed until a restart');
    };
    try {
      this.#watcher = watch(folder, { persistent: false }, () => this.#changed());
      this.#watcher.on('error', failed);
    } catch (error) {
      failed(error);
    }
    // After the watch has begun: what is added meanwhile is seen by one of the two.
    this.reload();
  }

  /** All that are pinned, in the order of their names. */
  get status(): PluginStatus[] {
    return [...this.#known.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Reads all of them; what has not changed stays as it is. */
  reload(): void {
    const { stateDir, limits } = this.#options;
    const names = pinnedNames(stateDir);
    for (const name of this.#known.keys()) if (!names.includes(name)) this.#remove(name);
    for (const [at, name] of names.entries()) {
      if (at < limits.pluginsMax) this.#take(name);
      else this.#refuse(name, `there are more than ${limits.pluginsMax} plugins`);
    }
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#timer?.cancel();
    this.#watcher?.close();
  }

  #changed(): void {
    const { powers, limits } = this.#options;
    this.#timer?.cancel();
    this.#timer = powers.after(limits.pluginReloadMs, () => {
      if (!this.#disposed) this.reload();
    });
  }

  #take(name: string): void {
    const { stateDir, limits } = this.#options;
    let plugin: Plugin;
    try {
      plugin = readPin(stateDir, name, limits);
    } catch (error) {
      if (!(error instanceof PluginError)) throw error;
      return this.#refuse(name, error.message);
    }
    const { manifest, sha256 } = plugin;
    const before = this.#known.get(name);
    if (before?.state === 'on' && before.sha256 === sha256) return;
    const tools = toToolset(plugin);
    try {
      this.#options.catalogue.set(sourceOf(name), tools);
    } catch (error) {
      return this.#refuse(name, `${(error as Error).message}; remove one of the two`);
    }
    const { version, isolation } = manifest;
    this.#tell({ name, state: 'on', version, sha256, isolation, tools: [...tools.keys()] });
  }

  /** A plugin that is not taken has no tools, whatever it had before. */
  #refuse(name: string, problem: string): void {
    this.#options.catalogue.set(sourceOf(name), new Map());
    if (this.#known.get(name)?.problem !== problem) this.#tell({ name, state: 'off', tools: [], problem });
  }

  #remove(name: string): void {
    this.#options.catalogue.set(sourceOf(name), new Map());
    this.#tell({ name, state: 'removed', tools: [] });
    this.#known.delete(name);
  }

  #tell(status: PluginStatus): void {
    const { powers, onChange } = this.#options;
    this.#known.set(status.name, status);
    const { name, state, version, sha256, problem } = status;
    if (problem === undefined) powers.log.info({ plugin: name, version, sha256 }, `plugin ${name} is ${state}`);
    else powers.log.warn({ plugin: name, problem }, `plugin ${name} is off`);
    onChange(status);
  }
}

const sourceOf = (name: string): string => `plugin ${name}`;
