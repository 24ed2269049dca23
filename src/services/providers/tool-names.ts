/** Names of provider tools for callers: `provider__tool`, in a form that every model API accepts, and permanent. */
import { createHash } from 'node:crypto';

const NAME_CHARS_MAX = 64;
const HASH_CHARS = 8;

/** A name that is not in `taken`. The same tool gets the same name unless another tool has it. */
export function toolName(provider: string, tool: string, taken: ReadonlySet<string>): string {
  const plain = `${provider}__${tool.replaceAll(/[^a-zA-Z0-9_]/g, '_')}`;
  if (plain.length <= NAME_CHARS_MAX && !taken.has(plain)) return plain;
  for (let turn = 0; ; turn++) {
    const hash = createHash('sha256').update(`${turn} ${tool}`).digest('hex').slice(0, HASH_CHARS);
    const name = `${plain.slice(0, NAME_CHARS_MAX - HASH_CHARS - 1)}_${hash}`;
    if (!taken.has(name)) return name;
  }
}
