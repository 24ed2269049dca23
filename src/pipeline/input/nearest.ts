/** Characters of a name that are compared: callers choose names, and the distance takes quadratic time. */
const NAME_CHARS_MAX = 64;

/**
 * The candidate that a misspelt name means, if any: one edit away, the same words in another order, or as many words
 * of which each is close to its counterpart. Names that only look alike (`git_pull` and `git_push`, `task` and
 * `bash`) mean different things.
 */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = name.slice(0, NAME_CHARS_MAX).toLowerCase();
  let best: string | undefined;
  let bestDistance = Infinity;
  for (const candidate of candidates) {
    const distance = distanceTo(wanted, candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** The edit distance, or Infinity if the two names mean different things. */
function distanceTo(wanted: string, candidate: string): number {
  const [a, b] = [wanted.split('_'), candidate.split('_')];
  const hasOtherWords = a.length !== b.length;
  // Then more than one edit is needed; most candidates end here, before the quadratic part.
  if (hasOtherWords && Math.abs(wanted.length - candidate.length) > 1) return Infinity;
  const wholeDistance = editDistance(wanted, candidate);
  if (wholeDistance <= 1) return wholeDistance;
  if (hasOtherWords) return Infinity;
  if (a.toSorted().join() === b.toSorted().join()) return 1;
  return a.every((word, at) => isNear(word, b[at] as string)) ? wholeDistance : Infinity;
}

/** Whether a word is a prefix of the other, or has at most a third of its characters wrong. */
function isNear(word: string, other: string): boolean {
  if (word.length >= PREFIX_CHARS_MIN && other.startsWith(word)) return true;
  return editDistance(word, other) <= Math.max(1, Math.floor(word.length / 3));
}

const PREFIX_CHARS_MIN = 3;

/** Levenshtein distance in which swapped neighbours count as one edit; keeps one row at a time. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? (before[j - 2] as number) + 1 : Infinity;
      next.push(Math.min(replaced, swapped, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    [before, row] = [row, next];
  }
  return row[b.length] as number;
}
