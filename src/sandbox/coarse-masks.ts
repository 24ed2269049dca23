/** Directories that are hidden whole because single entries can't be masked, and the messages that tell people. */

/** Why a directory is hidden whole though the policy names only part of its contents. */
export type CoarseReason = 'too-many' | 'too-deep' | 'not-utf8' | 'unreadable';

export interface CoarseMask {
  /** Relative to the workspace; '' for the workspace itself, whose own files are then not shown. */
  readonly path: string;
  readonly why: CoarseReason;
  /** The rule that hides most of the directory; absent for paths that no policy may open. */
  readonly rule?: string;
  /** Number of masked paths in it, if counted. */
  readonly count?: number | undefined;
}

/** Characters of a path that a message shows; a path of 4,000 would bury the message. */
const PATH_CHARS_MAX = 200;

/** One sentence: what is hidden, why, and what makes it visible again. Shows the path unescaped, control characters included. */
export function describeCoarse({ path, why, rule, count }: CoarseMask): string {
  const shown = path.length > PATH_CHARS_MAX ? `${path.slice(0, PATH_CHARS_MAX)}…` : path;
  const by = rule === undefined ? 'files that other programs trust' : `names that \`${rule}\` keeps`;
  const sentence = `\`${shown}\` is hidden with all that is in it`;
  switch (why) {
    case 'too-many':
      if (path !== '')
        return `${sentence}: it holds ${count ?? 'many'} ${by}; move or remove those outside of a command`;
      return `the workspace's own folder can't be changed, and its hidden files are not listed: it holds ${count} ${by}; move or remove those outside of a command`;
    case 'too-deep':
      return `${sentence}: paths in it are too long to hide one by one; move or remove them outside of a command`;
    case 'not-utf8':
      return `${sentence}: it holds ${by}, under names that are not UTF-8; rename those outside of a command`;
    case 'unreadable':
      return `${sentence}: its permissions let nobody enter it; run chmod u+rx on it outside of a command`;
    default:
      return why satisfies never;
  }
}
