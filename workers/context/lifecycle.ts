/** Runs `initialize`, `healthCheck` and `cleanup` of a worker thread's tools. */
import { ToolError } from '../../src/base/errors.ts';
import type { Health, SessionEnd } from '../../src/tools/lifecycle.ts';
import type { Tool, ToolContext } from '../../src/tools/tool.ts';

/** The tools of a worker thread. */
export interface Tools {
  /** Resolves with undefined if there is no such tool. */
  named(name: string): Promise<Tool | undefined>;
  /** The tools that calls have needed so far; no other has anything to clean up. */
  readonly loaded: readonly Tool[];
}

export class ToolLifecycle {
  readonly #tools: Tools;
  /** The functions that succeeded in this thread. */
  readonly #initialized = new Set<NonNullable<Tool['initialize']>>();

  constructor(tools: Tools) {
    this.#tools = tools;
  }

  /**
   * Runs the tool's `initialize` once. Throws why the tool can't be called, with a reason that tells the gateway that
   * the call is not at fault.
   */
  async initialize({ initialize }: Tool, context: ToolContext): Promise<void> {
    if (!initialize || this.#initialized.has(initialize)) return;
    try {
      await initialize(context);
    } catch (error) {
      if (!(error instanceof ToolError) || error.code !== 'UNSUPPORTED') throw error;
      const { code, message, extras } = error;
      throw new ToolError(code, message, { ...extras, details: { ...extras.details, reason: 'not-ready' } });
    }
    this.#initialized.add(initialize);
  }

  async health(names: readonly string[], context: ToolContext): Promise<Record<string, Health>> {
    const answers = new Map<Tool['healthCheck'], Promise<Health>>();
    const answerOf = (check: NonNullable<Tool['healthCheck']>) => {
      const known = answers.get(check) ?? healthBy(check, context);
      answers.set(check, known);
      return known;
    };
    const checked = names.map(async (name) => {
      const check = (await this.#tools.named(name))?.healthCheck;
      return check ? [[name, await answerOf(check)] as const] : [];
    });
    return Object.fromEntries((await Promise.all(checked)).flat());
  }

  /** Runs all cleanups, even if one throws. */
  async cleanup(session: SessionEnd): Promise<void> {
    const all = this.#tools.loaded.map(async (it) => it.cleanup?.(session));
    for (const it of await Promise.allSettled(all)) if (it.status === 'rejected') console.error(it.reason);
  }
}

async function healthBy(check: NonNullable<Tool['healthCheck']>, context: ToolContext): Promise<Health> {
  try {
    return await check(context);
  } catch (error) {
    if (!(error instanceof ToolError) || context.signal.aborted) throw error;
    return { ok: false, message: error.message };
  }
}
