/** What the conversation of a sub-agent needs of the two forms in which servers of models speak. */
import { ToolError } from '../../src/base/errors.ts';
import { isRecord } from '../../src/base/text/values.ts';

export interface ModelCall {
  readonly id: string;
  readonly name: string;
  /** JSON, if the model wrote what it should. */
  readonly arguments: string;
}

export interface ModelAnswer {
  readonly text: string;
  readonly calls: readonly ModelCall[];
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number } | undefined;
  /** Whether the answer was cut at its longest. */
  readonly cut: boolean;
}

/** What a call of the model came to. */
export interface CallResult {
  readonly id: string;
  readonly text: string;
  readonly success: boolean;
}

/** An answer whose calls are read; a malformed call has no input. */
export interface ReadAnswer {
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly input: Record<string, unknown> }[];
}

export interface Dialect {
  /** Reads a stream. Throws UPSTREAM_FAILED. */
  read(events: Iterable<Record<string, unknown>>): ModelAnswer;
  ofUser(text: string): object;
  ofAnswer(answer: ReadAnswer): object;
  /** Messages with the results of all calls of an answer. */
  ofResults(results: readonly CallResult[]): object[];
}

/** Tool calls in one answer; a model with more has gone astray. */
const CALLS_MAX = 64;

/** Collects the calls of an answer from their pieces. */
export class CallPieces {
  readonly #calls: { id: string; name: string; pieces: string[] }[] = [];
  readonly #byKey = new Map<unknown, { id: string; name: string; pieces: string[] }>();

  /** Begins a call under a key by which later pieces name it. Throws UPSTREAM_FAILED. */
  begin(key: unknown, { id, name }: { id: unknown; name: unknown }): void {
    if (this.#calls.length >= CALLS_MAX)
      throw new ToolError('UPSTREAM_FAILED', `the model made more than ${CALLS_MAX} calls in one answer`);
    const call = { id: textOf(id) || `call_${this.#calls.length}`, name: textOf(name), pieces: [] };
    this.#calls.push(call);
    this.#byKey.set(key, call);
  }

  idOf(key: unknown): string | undefined {
    return this.#byKey.get(key)?.id;
  }

  add(key: unknown, piece: unknown): void {
    if (typeof piece === 'string') this.#byKey.get(key)?.pieces.push(piece);
  }

  toCalls(): ModelCall[] {
    return this.#calls.map(({ id, name, pieces }) => ({ id, name, arguments: pieces.join('') }));
  }
}

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

export const countOf = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.round(value) : 0;

/** Throws UPSTREAM_FAILED for an event that says what went wrong. */
export function assertNoError({ error }: Record<string, unknown>): void {
  if (error === undefined || error === null) return;
  const said = isRecord(error) ? textOf(error.message) || textOf(error.type) : textOf(error);
  throw new ToolError('UPSTREAM_FAILED', `the model's server broke off: ${said.slice(0, 300)}`);
}
