/** CSS selectors of callers over a page. */
import { compile, selectAll } from 'css-select';
import type { AnyNode, Document, Element } from 'domhandler';
import { ToolError } from '../../src/base/errors.ts';

/** `:has` looks through everything below each element, and one in another multiplies that. */
const HAS_MAX = 1;

/** The first matches in the order of the page. Throws INPUT_INVALID. */
export function select(css: string, root: Document, max: number): Element[] {
  const uses = css.match(/:has\b/gi)?.length ?? 0;
  if (uses > HAS_MAX) throw invalid(css, `has ${uses} times \`:has\`; at most ${HAS_MAX} is allowed`);
  return selectAll<AnyNode, Element>(compiled(css), root).slice(0, max);
}

function compiled(css: string) {
  try {
    return compile<AnyNode, Element>(css);
  } catch (error) {
    throw invalid(css, `can't be read: ${(error as Error).message}`);
  }
}

const invalid = (css: string, why: string): ToolError =>
  new ToolError('INPUT_INVALID', `the selector \`${css.slice(0, 100)}\` ${why.slice(0, 200)}`);
