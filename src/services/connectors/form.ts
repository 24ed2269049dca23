/** Bodies and queries of the form `a=1&b[c]=2&d[]=3`. */
import { isRecord } from '../../base/text/values.ts';
import { toText } from './template.ts';

/** The form of an object; lists and objects within it are written with brackets. */
export function toForm(members: Readonly<Record<string, unknown>>): string {
  const form = new URLSearchParams();
  for (const [name, value] of pairsOf(members)) form.append(name, value);
  return form.toString();
}

function pairsOf(value: unknown, name = ''): [string, string][] {
  if (Array.isArray(value)) return value.flatMap((it) => pairsOf(it, `${name}[]`));
  if (!isRecord(value)) return value === undefined ? [] : [[name, toText(value)]];
  return Object.entries(value).flatMap(([key, it]) => pairsOf(it, name === '' ? key : `${name}[${key}]`));
}
