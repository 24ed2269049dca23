/** What callers know a provider's tools by: `provider__tool`, as every API of a model takes names, and the same for ever. */
import { createHash } from 'node:crypto';

const NAME_CHARS_MAX = 64;
const HASH_CHARS = 8;

/** A name that is none of `taken`. The same tool gets the same one unless another has it. */
export function toolName(provider: string, tool: string, taken: ReadonlySet<string>): string {
  const plain = `${provider}__${tool.replaceAll(/[^a-zA-Z0-9_]/g, '_')}`;
  if (plain.length <= NAME_CHARS_MAX && !taken.has(plain)) return plain;
  for (let turn = 0; ; turn++) {
    const hash = createHash('sha256').update(`${turn} ${tool}`).digest('hex').slice(0, HASH_CHARS);
    const name = `${plain.slice(0, NAME_CHARS_MAX - HASH_CHARS - 1)}_${hash}`;
    if (!taken.has(name)) return name;
  }
}
