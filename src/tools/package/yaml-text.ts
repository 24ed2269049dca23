/** Reads the YAML of lockfiles and settings of package managers. */
import { parseDocument } from 'yaml';
import { ToolError } from '../../base/errors.ts';
import { isRecord } from '../../base/text/values.ts';

/** The map in a YAML text; an empty one for an empty text. Throws UNSUPPORTED for another text, and for one with aliases. */
export function readYaml(text: string, path: string): Record<string, unknown> {
  let value: unknown;
  try {
    const document = parseDocument(text, { uniqueKeys: true });
    value = document.errors.length > 0 ? undefined : (document.toJS({ maxAliasCount: 0 }) ?? {});
  } catch {
    value = undefined; // A ReferenceError for aliases, a RangeError for a text that nests too deep.
  }
  if (isRecord(value)) return value;
  throw new ToolError('UNSUPPORTED', `${path} is no YAML map, or has aliases`);
}
