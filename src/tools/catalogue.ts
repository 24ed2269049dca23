/** All tools of a daemon by name: the built-in ones, and those that plugins and providers add and remove while the daemon runs. */
import type { NamedTool, Tool, Toolset } from './tool.ts';

export class Catalogue {
  /** The tools of each source, in the order in which the sources were added. */
  readonly #added = new Map<string, Toolset>();
  #builtin: Toolset;
  readonly #listeners = new Set<() => void>();
  readonly #looks: (() => void)[] = [];
  #toolset: Toolset;
  #wasRead = false;

  constructor(builtin: Toolset) {
    this.#builtin = builtin;
    this.#toolset = builtin;
  }

  /** The present toolset. Each change makes a new one, so a running call keeps the one that it began with. */
  get toolset(): Toolset {
    if (this.#wasRead) return this.#toolset;
    for (const look of this.#looks) look();
    this.#wasRead = true;
    setImmediate(() => this.onArrival());
    return this.#toolset;
  }

  /** Has the sources look again, for a request that may have been sent after the last look. */
  onArrival(): void {
    this.#wasRead = false;
  }

  /** Has a source look for what was added to it before the tools are read, once for each arrival of requests: the next call finds it. */
  lookFirst(look: () => void): void {
    this.#looks.push(look);
  }

  /** Replaces each built-in tool by what `change` makes of it, or removes it, while the daemon starts. */
  bind(change: (named: NamedTool) => NamedTool | undefined): void {
    const changed = new Map<Tool, Tool>();
    const all = [...this.#builtin].flatMap(([name, before]) => {
      const after = change(before);
      if (!after) return [];
      // All names of a tool still mean one tool.
      const tool = changed.get(before.tool) ?? after.tool;
      changed.set(before.tool, tool);
      return [[name, { ...after, tool }] as const];
    });
    this.#builtin = new Map(all);
    this.#join();
  }

  /**
   * Replaces all tools of `source`. Throws, and changes nothing, if a name or the prefix before its `__` belongs to
   * another source: to a policy, `gh__*` is one source.
   */
  set(source: string, tools: Toolset): void {
    const names = [...tools.keys()];
    const groups = new Set(names.flatMap((it) => groupOf(it) ?? []));
    for (const [other, tools] of [['', this.#builtin] as const, ...this.#added]) {
      if (other === source) continue;
      const taken = names.find((it) => tools.has(it));
      if (taken !== undefined) throw new Error(`the tool ${taken} of ${source} has the name of another tool`);
      const group = [...tools.keys()].map(groupOf).find((it) => it !== undefined && groups.has(it));
      if (group !== undefined)
        throw new Error(`the tools of ${source} are called ${group}__…, as those of ${other} are`);
    }
    if (tools.size > 0) this.#added.set(source, tools);
    else this.#added.delete(source);
    this.#join();
    for (const it of this.#listeners) it();
  }

  #join(): void {
    this.#toolset = new Map([this.#builtin, ...this.#added.values()].flatMap((it) => [...it]));
  }

  /** Calls `listener` after each change until the result is disposed. */
  onChange(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}

/** The prefix that all tools of a plugin or a provider share. */
const groupOf = (name: string): string | undefined => /^(.*?)__/.exec(name)?.[1];
