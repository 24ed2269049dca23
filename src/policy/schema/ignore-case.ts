/** Replaces `ignoreCase: true` in a match when its file is read: `*.pem` becomes `*.[pP][eE][mM]`. Other parts don't know the key. */
import type { MatchSpec, WrittenMatch } from './match.ts';

const PATH_KEYS = ['path', 'read', 'write', 'delete'] as const;

export function withoutIgnoreCase({ ignoreCase, all, any, not, ...match }: WrittenMatch): MatchSpec {
  const written = ignoreCase ? { ...match, ...pathsInAnyCase(match) } : match;
  return {
    ...written,
    ...(all && { all: all.map(withoutIgnoreCase) }),
    ...(any && { any: any.map(withoutIgnoreCase) }),
    ...(not && { not: withoutIgnoreCase(not) }),
  };
}

const pathsInAnyCase = (match: MatchSpec): MatchSpec =>
  Object.fromEntries(
    PATH_KEYS.flatMap((key) => {
      const globs = match[key];
      if (globs === undefined) return [];
      return [[key, typeof globs === 'string' ? inAnyCase(globs) : globs.map(inAnyCase)]];
    }),
  );

/**
 * The schema refuses brackets in such globs. A letter after a `\` stands for itself, as every other letter does; a letter whose other case
 * has more than one character (`ß`) stays as it is.
 */
const inAnyCase = (glob: string): string =>
  glob.replaceAll(/(\\?)(\p{L})/gu, (all, _, letter: string) => {
    const [lower, upper] = [letter.toLowerCase(), letter.toUpperCase()];
    const isPair = lower !== upper && lower.length === letter.length && upper.length === letter.length;
    return isPair ? `[${lower}${upper}]` : all;
  });
