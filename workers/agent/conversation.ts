/** A conversation with a model, whose older results of tools are cut when it becomes long. */
import { ToolError } from '../../src/base/errors.ts';
import type { CallResult, Dialect, ReadAnswer } from './dialect.ts';

/** What an old result keeps of its text. */
const OLD_RESULT_CHARS = 500;

type Part = { readonly messages: readonly object[]; readonly results?: readonly CallResult[] };

export class Conversation {
  readonly #dialect: Dialect;
  readonly #charsMax: number;
  #parts: Part[] = [];

  constructor(dialect: Dialect, charsMax: number) {
    this.#dialect = dialect;
    this.#charsMax = charsMax;
  }

  /** The messages, short enough. Throws OUTPUT_LIMIT if they can't be. */
  get messages(): object[] {
    this.#shorten();
    return this.#parts.flatMap((it) => it.messages);
  }

  user(text: string): void {
    this.#parts.push({ messages: [this.#dialect.ofUser(text)] });
  }

  answer(answer: ReadAnswer): void {
    this.#parts.push({ messages: [this.#dialect.ofAnswer(answer)] });
  }

  results(results: readonly CallResult[]): void {
    this.#parts.push({ messages: this.#dialect.ofResults(results), results });
  }

  /** Cuts results, the oldest first and the newest never, until the conversation fits. */
  #shorten(): void {
    const sizes = this.#parts.map(({ messages }) => JSON.stringify(messages).length);
    let chars = sizes.reduce((sum, it) => sum + it, 0);
    const newest = this.#parts.findLastIndex((it) => it.results !== undefined);
    for (let at = 0; at < newest && chars > this.#charsMax; at++) {
      const { results } = this.#parts[at] as Part;
      if (!results) continue;
      const cut = results.map((it) => ({ ...it, text: shortened(it.text) }));
      const part = { messages: this.#dialect.ofResults(cut), results: cut };
      chars += JSON.stringify(part.messages).length - (sizes[at] as number);
      this.#parts[at] = part;
    }
    if (chars > this.#charsMax)
      throw new ToolError(
        'OUTPUT_LIMIT',
        `the conversation has ${chars} characters; at most ${this.#charsMax} are sent`,
      );
  }
}

function shortened(text: string): string {
  if (text.length <= 2 * OLD_RESULT_CHARS) return text;
  const left = `[… ${text.length - 2 * OLD_RESULT_CHARS} characters of an older result are left out …]`;
  return `${text.slice(0, OLD_RESULT_CHARS).toWellFormed()}\n${left}\n${text.slice(-OLD_RESULT_CHARS).toWellFormed()}`;
}
