/**
 * Loads the code of each tool when a call first needs it: building the schemas of all tools takes half of a host's
 * start, and the first call of a session waits for that.
 */
import type { Tool } from '../../src/tools/tool.ts';
import { toolLoaders } from './tool-loaders.ts';

const LOADERS: Readonly<Record<string, () => Promise<unknown>>> = toolLoaders;

export class LoadedTools {
  readonly #tools = new Map<string, Tool>();

  /** Resolves with undefined if there is no such tool; rejects if its code can't be read. */
  async named(name: string): Promise<Tool | undefined> {
    const load = Object.hasOwn(LOADERS, name) ? LOADERS[name] : undefined;
    const tool = this.#tools.get(name) ?? ((await load?.()) as Tool | undefined);
    if (tool) this.#tools.set(name, tool);
    return tool;
  }

  /** The tools that calls have needed so far. */
  get loaded(): readonly Tool[] {
    return [...this.#tools.values()];
  }
}
