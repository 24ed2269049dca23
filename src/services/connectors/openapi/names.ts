/** Names of connector files for those of OpenAPI documents. */
import { isUsableName } from './schema.ts';

const WORDS = /[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+/g;

/**
 * The words of a name in lower case, joined by single underscores, with a letter first and at most `max` characters;
 * `other` if it has no letters.
 */
export function toSnakeCase(text: string, { max, other }: { max: number; other: string }): string {
  const words = (text.slice(0, 500).match(WORDS) ?? []).map((it) => it.toLowerCase());
  let name = '';
  for (const word of words) {
    if (name === '' && !/^[a-z]/.test(word)) continue;
    const longer = name === '' ? word : `${name}_${word}`;
    if (longer.length > max) break;
    name = longer;
  }
  return name === ''
    ? words
        .join('')
        .replace(/^[0-9]+/, '')
        .slice(0, max) || other
    : name;
}

/** The name of a parameter: itself if a file can have it. */
export function toParameterName(given: string): string {
  if (isUsableName(given)) return given;
  const name = given
    .replaceAll(/[^A-Za-z0-9_]+/g, '_')
    .replaceAll(/^[^A-Za-z]+|_+$/g, '')
    .slice(0, 64);
  return isUsableName(name) ? name : `${name}_value`.replace(/^_/, '').slice(0, 64);
}

/** Names that differ from one another. */
export class NameList {
  readonly #taken = new Set<string>();

  /** The name, with a number at its end if another one has it. */
  add(name: string, max = 64): string {
    let free = name;
    for (let at = 2; this.#taken.has(free); at++)
      free = `${name.slice(0, max - `_${at}`.length).replace(/_+$/, '')}_${at}`;
    this.#taken.add(free);
    return free;
  }
}
