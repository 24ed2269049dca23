/** Gives tools the parser process: one question at a time, and at most a few crashes for a call. */
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { RewriteLanguage, RewriteRequest, Syntax, TextRange } from '../../src/tools/source/syntax.ts';
import type { ParsedLanguage } from '../symbols/source-languages.ts';
import type { SyntaxParser } from '../syntax-parser.ts';

export class WorkspaceSyntax implements Syntax {
  readonly #parser: SyntaxParser;
  readonly #limits: Limits;
  readonly #signal: AbortSignal;
  #ends = 0;

  constructor(parser: SyntaxParser, limits: Limits, signal: AbortSignal) {
    this.#parser = parser;
    this.#limits = limits;
    this.#signal = signal;
  }

  async rewrite({ path, language: wanted, ...request }: RewriteRequest): Promise<TextRange[] | undefined> {
    const language = grammarOf(wanted, path);
    const { symbolParserEndsMax: limit } = this.#limits;
    const answer = await this.#parser.rewrite({ language, ...request }, this.#signal);
    if (answer === undefined) {
      this.#ends += 1;
      if (this.#ends < limit) return undefined;
      throw new ToolError('HOST_CRASHED', `the parser ended ${limit} times, last at \`${path}\``, {
        suggestion: 'Leave such files out with exclude.',
        details: { limit, enforcedBy: 'host' },
      });
    }
    if ('edits' in answer) return answer.edits;
    throw new ToolError(answer.code, `${answer.message}${answer.isOfFile ? ` in \`${path}\`` : ''}`, {
      suggestion: answer.suggestion,
    });
  }
}

/** JavaScript is parsed as TypeScript with JSX. */
const grammarOf = (language: RewriteLanguage, path: string): ParsedLanguage =>
  language === 'javascript' || (language === 'typescript' && path.endsWith('x')) ? 'tsx' : language;
