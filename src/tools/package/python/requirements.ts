/** Reads and changes requirements files of pip. Pure. */
import { assertSettings } from '../steps.ts';

/** Names that mean the same project have the same normal form (PEP 503). */
export const normalName = (name: string): string => name.replaceAll(/[-_.]+/g, '-').toLowerCase();

const VERSIONS = String.raw`(?:[<>=!~]=?=?\s*[\w.*+!-]+\s*,?\s*)*`;
const REQUIREMENT = new RegExp(
  String.raw`^([A-Za-z0-9][\w.-]*)\s*(?:\[[\w.,\s-]*\])?\s*${VERSIONS}(?:;[^@]*)?(?:\s#.*)?$`,
);

const linesOf = (text: string): string[] => text.split(/\r\n|\r|\n/);
const isBlank = (line: string): boolean => /^\s*(#.*)?$/.test(line);

/** Throws POLICY_DENIED for lines that are more than a name with versions: options, addresses, folders, other files. */
export function assertRequirements(path: string, text: string): void {
  const others = linesOf(text).filter((it) => !isBlank(it) && !REQUIREMENT.test(it.trim()));
  assertSettings(
    path,
    others.map((it) => it.trim().split(/[\s=]/)[0]?.slice(0, 128) ?? ''),
  );
}

/** The projects that a text names. */
export const namesIn = (text: string): string[] =>
  linesOf(text).flatMap((it) => {
    const name = isBlank(it) ? undefined : REQUIREMENT.exec(it.trim())?.[1];
    return name === undefined ? [] : [normalName(name)];
  });

/** The text with a requirement that takes the place of the one with its name. */
export function withRequirement(text: string, name: string, versions: string): string {
  const lines = linesOf(text.replace(/\n$/, ''));
  const at = lines.findIndex((it) => namesIn(it).includes(normalName(name)));
  const line = `${name}${versions}`;
  if (at !== -1) return `${lines.with(at, versions === '' ? (lines[at] as string) : line).join('\n')}\n`;
  return `${[...lines.filter((it) => it !== '' || lines.length > 1), line].join('\n')}\n`;
}
