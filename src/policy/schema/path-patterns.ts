/** The path globs of rules, compiled. */
import { compilePath, compileSegment, type PathTest, toSegments, unfoldBraces } from '../../base/text/glob.ts';

/** A path pattern: relative to the workspace, absolute, or below home. */
export interface PathPattern {
  readonly base: 'relative' | 'absolute' | 'home';
  readonly segments: readonly string[];
  /** See `Wildcard.held`. */
  readonly held: string;
  readonly test: PathTest;
}

/** The path patterns of a glob after brace expansion; `docs/` means `docs/**`. Throws INPUT_INVALID when there are too many. */
export function toPathPatterns(glob: string): PathPattern[] {
  return unfoldBraces(glob).map((text) => {
    const isHome = text === '~' || text.startsWith('~/');
    const segments = toSegments(isHome ? text.slice(1) : text);
    if (text.endsWith('/')) segments.push('**');
    const base = isHome ? 'home' : text.startsWith('/') ? 'absolute' : 'relative';
    const held =
      segments.map((it) => (it === '**' ? '' : compileSegment(it).held)).sort((a, b) => b.length - a.length)[0] ?? '';
    return { base, segments, held, test: compilePath(segments) };
  });
}
