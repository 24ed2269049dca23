/** Tools that succeeded after a search for tools, by workspace: later searches for the like rank them higher. */
import * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { ToolStates } from '../../store/tool-states.ts';
import { runsBy } from '../../tools/runs.ts';
import { type Learned, type ToolQuery, wordsOf } from '../../tools/tools/find.ts';
import type { Outcome } from '../outcome.ts';
import type { CheckedCall } from '../stage.ts';

const STATE = 'learned_tools';
/** Words of one search; a query has at most 128. */
const WORDS_MAX = 16;
const TIMES_MAX = 1_000;
/** Sessions whose last search is remembered; a principal may open many. */
const SESSIONS_MAX = 256;
/** How long after a search a call counts as its answer, and how many calls do. */
const WITHIN_MS = 600_000;
const CALLS_MAX = 2;
/** Share of words that two searches have in common to be alike. */
const LIKENESS_MIN = 0.4;

const state = z.array(z.strictObject({ words: z.array(z.string()), tool: z.string(), times: z.int() })).catch([]);

interface Search {
  readonly words: readonly string[];
  readonly untilMs: number;
  left: number;
}

interface LearnedParts {
  readonly toolStates: ToolStates;
  readonly limits: Limits;
  readonly powers: Powers;
  redact<T>(value: T): T;
}

export class LearnedTools {
  readonly #parts: LearnedParts;
  readonly #searches = new Map<string, Search>();

  constructor(parts: LearnedParts) {
    this.#parts = parts;
  }

  /** Tools that succeeded here after searches like this one, by name. */
  of(workspace: string, { query }: ToolQuery): Learned {
    const wanted = wordsOf(query);
    const found = new Map<string, { likeness: number; times: number }>();
    for (const { words, tool, times } of this.#known(workspace)) {
      const likeness = likenessOf(wanted, words);
      if (likeness < LIKENESS_MIN) continue;
      const before = found.get(tool);
      found.set(tool, {
        likeness: Math.max(likeness, before?.likeness ?? 0),
        times: times + (before?.times ?? 0),
      });
    }
    return found;
  }

  /** Learns from a call that has ended. Never throws: no call fails because nothing could be learned. */
  ended({ checked: { tool, input }, sessionId, workspace }: CheckedCall, { error }: Outcome): void {
    const { limits, powers, redact } = this.#parts;
    if (error || limits.learnedToolsMax === 0) return;
    if (runsBy(tool, 'tools')) {
      const { query } = input as Partial<ToolQuery>;
      if (query === undefined) return;
      const words = wordsOf(redact(query)).slice(0, WORDS_MAX);
      this.#searches.delete(sessionId);
      this.#searches.set(sessionId, { words, untilMs: powers.monotonicMs() + WITHIN_MS, left: CALLS_MAX });
      const [oldest] = this.#searches.keys();
      if (this.#searches.size > SESSIONS_MAX && oldest !== undefined) this.#searches.delete(oldest);
      return;
    }
    const search = this.#searches.get(sessionId);
    if (!search) return;
    search.left -= 1;
    const isLate = powers.monotonicMs() > search.untilMs;
    if (search.left === 0 || isLate) this.#searches.delete(sessionId);
    if (!isLate && search.words.length > 0) this.#learn(workspace, search.words, tool.name);
  }

  #known(workspace: string): z.output<typeof state> {
    const { limits, toolStates } = this.#parts;
    if (limits.learnedToolsMax === 0) return [];
    try {
      return state.parse(toolStates.get(STATE, workspace));
    } catch {
      return []; // STORE_FAILED: a search works without what was learned.
    }
  }

  #learn(workspace: string, words: readonly string[], tool: string): void {
    const known = this.#known(workspace);
    const isSame = (it: (typeof known)[number]) => it.tool === tool && likenessOf(it.words, words) === 1;
    const times = Math.min(TIMES_MAX, (known.find(isSame)?.times ?? 0) + 1);
    const next = [...known.filter((it) => !isSame(it)), { words: [...words], tool, times }];
    try {
      this.#parts.toolStates.set(STATE, workspace, next.slice(-this.#parts.limits.learnedToolsMax));
    } catch {
      // STORE_FAILED: it is learned another time.
    }
  }
}

/** The share of all words of both that both have. */
function likenessOf(a: readonly string[], b: readonly string[]): number {
  const shared = a.filter((it) => b.includes(it)).length;
  return shared / (a.length + b.length - shared || 1);
}
