/** The path globs of rules, compiled. */
import { compilePath, compileSegment, type PathTest, toSegments, unfoldBraces } from '../../base/text/glob.ts';

/** A path pattern as text: relative to the workspace, absolute, or below home. */
interface PathText {
  readonly base: 'relative' | 'absolute' | 'home';
  readonly segments: readonly string[];
}

export interface PathPattern extends PathText {
  /** See `Wildcard.held`. */
  readonly held: string;
  readonly test: PathTest;
}

/** The patterns of a glob after brace expansion; `docs/` means `docs/**`. Throws INPUT_INVALID when there are too many. */
export function toPathTexts(glob: string): PathText[] {
  return unfoldBraces(glob).map((text) => {
    const isHome = text === '~' || text.startsWith('~/');
    const segments = toSegments(isHome ? text.slice(1) : text);
    if (text.endsWith('/')) segments.push('**');
    return { base: isHome ? 'home' : text.startsWith('/') ? 'absolute' : 'relative', segments };
  });
}

/** The same, compiled. */
export function toPathPatterns(glob: string): PathPattern[] {
  return toPathTexts(glob).map(({ base, segments }) => {
    const held =
      segments.map((it) => (it === '**' ? '' : compileSegment(it).held)).sort((a, b) => b.length - a.length)[0] ?? '';
    return { base, segments, held, test: compilePath(segments) };
  });
}
