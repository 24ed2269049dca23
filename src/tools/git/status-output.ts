/** Parses `git status --porcelain=v2 -z --branch`. Architecture invariant: pure. */

export interface StatusEntry {
  readonly path: string;
  /** The former name, if the file was renamed or copied. */
  readonly from?: string;
  /** Git's status letters: index against HEAD, and work tree against index; `.` for no change. */
  readonly staged: string;
  readonly unstaged: string;
}

export interface ParsedStatus {
  /** Undefined before the first commit. */
  readonly head: string | undefined;
  /** Undefined if HEAD is detached. */
  readonly branch: string | undefined;
  readonly upstream: string | undefined;
  readonly ahead: number;
  readonly behind: number;
  readonly changed: readonly StatusEntry[];
  readonly untracked: readonly string[];
  readonly conflicted: readonly string[];
}

/** Number of fields before the path, by the first letter of a record. */
const FIELDS: Readonly<Record<string, number>> = { 1: 8, 2: 9, u: 10 };

/** Parses records that end with NUL; leaves out a cut last one. */
export function parseStatus(output: Buffer): ParsedStatus {
  const records = output.toString('utf8').split('\0').slice(0, -1);
  const headers = new Map<string, string>();
  const changed: StatusEntry[] = [];
  const untracked: string[] = [];
  const conflicted: string[] = [];
  for (let at = 0; at < records.length; at++) {
    const record = records[at] as string;
    const kind = record[0] as string;
    if (kind === '#') {
      const [, key = '', value = ''] = /^# (\S+) (.*)$/s.exec(record) ?? [];
      headers.set(key, value);
    } else if (kind === '?') untracked.push(record.slice(2));
    else if (FIELDS[kind] !== undefined) {
      const { path, staged, unstaged } = entryOf(record, FIELDS[kind]);
      if (kind === 'u') conflicted.push(path);
      else if (kind === '1') changed.push({ path, staged, unstaged });
      else {
        const from = records[++at];
        if (from !== undefined) changed.push({ path, from, staged, unstaged });
      }
    }
  }
  const [, ahead = '0', behind = '0'] = /^\+(\d+) -(\d+)$/.exec(headers.get('branch.ab') ?? '') ?? [];
  const unless = (key: string, nothing: string) => (headers.get(key) === nothing ? undefined : headers.get(key));
  return {
    head: unless('branch.oid', '(initial)'),
    branch: unless('branch.head', '(detached)'),
    upstream: headers.get('branch.upstream'),
    ahead: Number(ahead),
    behind: Number(behind),
    changed,
    untracked,
    conflicted,
  };
}

function entryOf(record: string, fields: number): { path: string; staged: string; unstaged: string } {
  let start = 0;
  for (let field = 0; field < fields; field++) start = record.indexOf(' ', start) + 1;
  return { path: record.slice(start), staged: record[2] as string, unstaged: record[3] as string };
}
