/** Lists what the sandbox kept from a command: that may be why it failed, or why its output lacks something. */
import { basename } from 'node:path';
import type { WithheldPaths } from '../../src/base/call.ts';
import { isInside } from '../../src/base/paths.ts';
import type { Masks } from '../../src/sandbox/masks.ts';
import type { PathRules } from './path-rules.ts';

/** The most paths listed of each kind; a model pays for each. */
const LISTED_MAX = 20;
const ABSENT_MAX = 5;
/** The most of a command's line, output and errors that is searched for names, in characters from the end. */
const SEARCHED_CHARS = 64 * 1024;

export interface EndedCommand {
  readonly command: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly failed: boolean;
  readonly workspace: string;
}

/**
 * Gives what was kept from a command that failed, or that names a hidden path in its line, output or errors; undefined otherwise. Names the
 * rule of each hidden path, and how to ask for those that were named.
 */
export function toWithheld(
  { hidden, readOnly }: Masks,
  rules: PathRules,
  { command, stdout, stderr, failed, workspace }: EndedCommand,
): WithheldPaths | undefined {
  const text = [command, stdout, stderr].map((it) => it.slice(-SEARCHED_CHARS)).join('\n');
  const names = new Set([...new Set(hidden.map(({ path }) => basename(path)))].filter((it) => isNamed(text, it)));
  const named = hidden.filter(({ path }) => names.has(basename(path)));
  if (!failed && named.length === 0) return undefined;
  const others = failed ? hidden.filter((it) => !named.includes(it)) : [];
  const absent = failed ? absentIn(stderr.slice(-SEARCHED_CHARS), workspace) : [];
  return {
    hidden: [...named, ...others].slice(0, LISTED_MAX).map((it) => {
      const rule = rules.ruleOn('read', it.path);
      return {
        path: it.path,
        rule,
        ...(rule !== undefined &&
          named.includes(it) && { open: `access_request ${JSON.stringify({ path: it.path })}` }),
      };
    }),
    ...(absent.length > 0 && { absent }),
    count: hidden.length,
    readOnly: failed ? readOnly.slice(0, LISTED_MAX).map((path) => path || '.') : [],
  };
}

/** Whether a text has the name as a word of its own: `.env` is not in `.env.example`. */
function isNamed(text: string, name: string): boolean {
  const isPartOf = (char: string | undefined) => char !== undefined && /[\w.-]/.test(char);
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + 1)) {
    // A sentence ends with a dot, and `./.env` begins a path.
    const after = text.slice(at + name.length).replace(/^\.(?=\s|$)/, '');
    if (!isPartOf(text[at - 1]) && !isPartOf(after[0])) return true;
  }
  return false;
}

/** The words of programs for a path that is not there. */
const MISSING = /No such file or directory|ENOENT|cannot find|does not exist|not found|not a git repository/i;
/** What git misses of a linked worktree; it needs the whole repository. */
const OF_WORKTREE = /(\/\.git)\/worktrees\/[^/]+$/;

/** Absolute paths outside of the workspace that errors name as missing. */
function absentIn(stderr: string, workspace: string): string[] {
  const lines = stderr.split('\n').filter((it) => it.length <= 4096 && MISSING.test(it));
  const paths = lines.flatMap((it) => it.match(/(?<=^|[\s'"`(=:])\/[^\s'"`:,;)]+/g) ?? []);
  const missed = new Set(paths.map((it) => it.replace(OF_WORKTREE, '$1')));
  return [...missed].filter((it) => !isInside(workspace, it)).slice(0, ABSENT_MAX);
}
