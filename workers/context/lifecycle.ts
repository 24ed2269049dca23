/** Runs `initialize`, `healthCheck` and `cleanup` of a worker thread's tools. */
import { ToolError } from '../../src/errors.ts';
import type { Health, SessionEnd } from '../../src/tools/lifecycle.ts';
import type { Tool, ToolContext } from '../../src/tools/tool.ts';

export class ToolLifecycle {
  readonly #tools: Readonly<Record<string, Tool>>;
  /** The functions that succeeded in this thread. */
  readonly #initialized = new Set<NonNullable<Tool['initialize']>>();

  constructor(tools: Readonly<Record<string, Tool>>) {
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
    const checked = names.flatMap((name) => {
      const check = this.#tools[name]?.healthCheck;
      return check ? [answerOf(check).then((it) => [name, it] as const)] : [];
    });
    return Object.fromEntries(await Promise.all(checked));
  }

  /** Runs all cleanups, even if one throws. */
  async cleanup(session: SessionEnd): Promise<void> {
    const all = Object.values(this.#tools).map(async (it) => it.cleanup?.(session));
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
