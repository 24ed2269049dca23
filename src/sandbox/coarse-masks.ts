/** Directories that are hidden whole because what is to be masked in them can't be masked by itself, and how people are told. */

/** Why a directory is hidden with all that is in it, though the policy means only some of that. */
export type CoarseReason = 'too-many' | 'too-deep' | 'not-utf8' | 'unreadable';

export interface Coarse {
  /** Relative to the workspace; '' for the workspace, whose own files are then not shown. */
  readonly path: string;
  readonly why: CoarseReason;
  /** The rule that holds most of what is in it; absent for what no policy may open. */
  readonly rule?: string;
  /** How many paths in it are masked, where they were counted. */
  readonly count?: number;
}

/** Characters of a path that are shown; one of 4 000 would hide what is said of it. */
const PATH_CHARS_MAX = 200;

/** One sentence: what is hidden, why, and what makes it visible again. The path is as it is on the disk, control characters too. */
export function describeCoarse({ path, why, rule, count }: Coarse): string {
  const shown = path.length > PATH_CHARS_MAX ? `${path.slice(0, PATH_CHARS_MAX)}…` : path;
  const by = rule === undefined ? 'files that other programs trust' : `names that \`${rule}\` keeps`;
  const whole = `\`${shown}\` is hidden with all that is in it`;
  switch (why) {
    case 'too-many':
      if (path !== '') return `${whole}: it holds ${count ?? 'many'} ${by}; move or remove those outside of a command`;
      return `the workspace's own folder can't be changed, and its hidden files are not listed: it holds ${count} ${by}; move or remove those outside of a command`;
    case 'too-deep':
      return `${whole}: what lies in it has paths too long to be masked one by one; move or remove it outside of a command`;
    case 'not-utf8':
      return `${whole}: it holds ${by}, under names that are not UTF-8; rename those outside of a command`;
    case 'unreadable':
      return `${whole}: its mode lets nobody enter it; chmod u+rx it outside of a command`;
    default:
      return why satisfies never;
  }
}
