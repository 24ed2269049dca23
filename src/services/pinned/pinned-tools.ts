/** What an operator added, as tools of a running daemon: reads it at start and after every change. */

import type { Toolset } from '../../tools/tool.ts';
import type { DaemonParts } from '../capability.ts';
import { PinError } from './pin-error.ts';
import type { PinFolder } from './pin-folder.ts';

interface Pinned {
  readonly sha256: string;
}

/** How the tools of a kind are made. */
export interface PinnedKind<Item extends Pinned> {
  readonly pins: PinFolder;
  /** Throws PinError. */
  read(name: string): Item;
  toToolset(item: Item): Toolset;
  /** What the logs have of an item whose tools are callable. */
  facts?(item: Item): object;
  /** Called for each item that was loaded or replaced, and without one if its tools are no longer callable. */
  onChange?(name: string, item: Item | undefined): void;
}

export type PinnedParts = Pick<DaemonParts, 'catalogue' | 'auditLog' | 'powers'>;

/** Time from a change of what is pinned to its reload; adding something makes several changes. */
const RELOAD_MS = 50;

/** An item that is pinned but refused, as `status` shows it. */
export interface OffStatus {
  readonly name: string;
  readonly state: 'off';
  readonly tools: readonly string[];
  /** Why its tools are not callable. */
  readonly problem: string;
}

/** Disposing stops the watching. */
export class PinnedTools<Item extends Pinned> implements Disposable {
  readonly #of: PinnedKind<Item>;
  readonly #parts: PinnedParts;
  readonly #on = new Map<string, { readonly item: Item; readonly tools: readonly string[] }>();
  readonly #problems = new Map<string, string>();
  readonly #watching: ReturnType<PinFolder['watch']>;

  constructor(of: PinnedKind<Item>, parts: PinnedParts) {
    this.#of = of;
    this.#parts = parts;
    const { powers, catalogue } = parts;
    this.#watching = of.pins.watch(() => this.reload(), { powers, delayMs: RELOAD_MS });
    catalogue.lookFirst(() => this.#watching.look());
    // Runs after the watch has begun, so that no addition is missed in between.
    this.reload();
  }

  /** All pinned items in order of their names; `of` describes those whose tools are callable. */
  status<S extends { readonly name: string }>(
    of: (item: Item, on: { readonly name: string; readonly tools: readonly string[] }) => S,
  ): (S | OffStatus)[] {
    this.#watching.look();
    const on = [...this.#on].map(([name, { item, tools }]) => of(item, { name, tools }));
    const off = [...this.#problems].map(([name, problem]) => ({ name, state: 'off', tools: [], problem }) as const);
    return [...on, ...off].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The items whose tools are callable. */
  get items(): Item[] {
    return [...this.#on.values()].map(({ item }) => item);
  }

  /** Reads all items; unchanged ones stay as they are. */
  reload(): void {
    const { kind, max } = this.#of.pins.of;
    const names = this.#of.pins.names();
    for (const name of [...this.#on.keys(), ...this.#problems.keys()])
      if (!names.includes(name)) {
        this.#problems.delete(name);
        this.#end(name, 'removed');
      }
    for (const [at, name] of names.entries()) {
      if (at < max.count) this.#load(name);
      else this.#refuse(name, `there are more than ${max.count} ${kind}s`);
    }
  }

  [Symbol.dispose](): void {
    this.#watching[Symbol.dispose]();
  }

  #load(name: string): void {
    const { read, toToolset, onChange, facts } = this.#of;
    let item: Item;
    try {
      item = read(name);
    } catch (error) {
      if (!(error instanceof PinError)) throw error;
      return this.#refuse(name, error.message);
    }
    const { sha256 } = item;
    if (this.#on.get(name)?.item.sha256 === sha256) return;
    try {
      const tools = toToolset(item);
      this.#parts.catalogue.set(this.#sourceOf(name), tools);
      this.#on.set(name, { item, tools: [...tools.keys()] });
    } catch (error) {
      // An error of the catalogue names the tool whose name is taken.
      return this.#refuse(name, `${(error as Error).message}; remove one of the two`);
    }
    this.#problems.delete(name);
    onChange?.(name, item);
    this.#record(name, { state: 'on', ...facts?.(item), sha256 });
  }

  #refuse(name: string, problem: string): void {
    if (this.#problems.get(name) === problem) return;
    this.#problems.set(name, problem);
    this.#end(name, 'off', problem);
  }

  /** Takes away the tools of an item. */
  #end(name: string, state: 'off' | 'removed', problem?: string): void {
    this.#parts.catalogue.set(this.#sourceOf(name), new Map());
    this.#on.delete(name);
    this.#of.onChange?.(name, undefined);
    this.#record(name, { state, problem });
  }

  /** Records a change of what is callable, with the hash of the trusted files. */
  #record(
    name: string,
    { state, ...facts }: { readonly state: string; readonly sha256?: string; readonly problem?: string | undefined },
  ): void {
    const { powers, auditLog } = this.#parts;
    const { kind } = this.#of.pins.of;
    powers.log[state === 'off' ? 'warn' : 'info']({ [kind]: name, ...facts }, `${kind} ${name} is ${state}`);
    auditLog.append({ kind: 'policy', sessionId: '', principal: 'daemon', detail: { [kind]: name, state, ...facts } });
  }

  #sourceOf = (name: string): string => `${this.#of.pins.of.kind} ${name}`;
}
