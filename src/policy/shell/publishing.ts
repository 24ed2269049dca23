/** Recognises commands that publish: they send work to where others see it, with rights that no sandbox bounds. Pure. */
import type { SimpleCommand } from '../question.ts';

/** What a command publishes, and where, as far as its words say. */
export interface Publishing {
  /** `git push`, `npm publish`, `gh pr create`. */
  readonly verb: string;
  /** The remote or registry, if the words name one. */
  readonly to: string | undefined;
  /** Whether others may lose work: a forced push, a deletion, or a push to a branch that everybody builds on. */
  readonly isGrave: boolean;
}

type Words = readonly (string | undefined)[];

/** Verbs by program, each word or its alternatives; the words may stand after options. */
const VERBS: Readonly<Record<string, readonly (readonly (string | readonly string[])[])[]>> = {
  git: [['push'], ['send-email'], ['send-pack'], ['svn', 'dcommit'], ['lfs', 'push']],
  gh: [
    [
      [
        'pr',
        'issue',
        'release',
        'repo',
        'gist',
        'secret',
        'variable',
        'workflow',
        'run',
        'label',
        'project',
        'ruleset',
      ],
      ['create', 'merge', 'close', 'reopen', 'edit', 'delete', 'comment', 'review', 'ready', 'upload', 'set', 'fork'],
    ],
    [
      ['repo', 'issue', 'pr', 'workflow', 'run'],
      ['rename', 'archive', 'sync', 'transfer', 'lock', 'rerun', 'cancel', 'enable', 'disable', 'run', 'pin'],
    ],
  ],
  glab: [
    [
      ['mr', 'issue', 'release', 'repo'],
      ['create', 'merge', 'close', 'delete', 'update', 'note', 'approve'],
    ],
  ],
  npm: [[['publish', 'unpublish', 'deprecate', 'dist-tag', 'owner', 'access']]],
  pnpm: [['publish']],
  yarn: [['publish'], ['npm', 'publish']],
  bun: [['publish']],
  cargo: [[['publish', 'yank', 'owner']]],
  twine: [['upload']],
  uv: [['publish']],
  poetry: [['publish']],
  flit: [['publish']],
  hatch: [['publish']],
  gem: [[['push', 'yank']]],
  docker: [['push'], ['image', 'push'], ['manifest', 'push']],
  podman: [['push'], ['image', 'push']],
  helm: [['push']],
};

/** Options of the programs that take the next word before the verb. */
const VALUED =
  /^(-[cC]|--git-dir|--work-tree|--namespace|-R|--repo|--prefix|--registry|--config|--context|-H|--host|--cwd)$/;
const FORCES =
  /^(-[a-z]*f[a-z]*|--force(-with-lease|-if-includes)?(=.*)?|--mirror|--delete|-d|--prune|--all|--branches)$/;
const DEFAULT_BRANCH = /^(?:refs\/heads\/)?(?:main|master|trunk|develop|production|release)$/;

/** What a command publishes; undefined if it publishes nothing, as far as its words say. */
export function publishingOf({ program, words }: SimpleCommand): Publishing | undefined {
  const name = program ?? words[0]?.slice(words[0].lastIndexOf('/') + 1);
  const verbs = name !== undefined && Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
  if (!verbs) return undefined;
  const args = words.slice(1);
  const operands = args.filter((it, at) => !it?.startsWith('-') && !VALUED.test(args[at - 1] ?? ''));
  const found = verbs.find((verb) => verb.every((word, at) => [word].flat().includes(operands[at] ?? '')));
  if (!found) return undefined;
  const verb = [name, ...operands.slice(0, found.length)].join(' ');
  const [to, ...refs] = operands.slice(found.length);
  return { verb, to, isGrave: verb === 'git push' ? isGrave(args, refs) : verb.startsWith('npm ') };
}

/** A push whose branch only git knows may go to the default branch. */
const isGrave = (args: Words, refs: Words): boolean =>
  args.some((it) => it === undefined || FORCES.test(it)) ||
  refs.length === 0 ||
  refs.some((it) => it === undefined || /^[+:]/.test(it) || /^HEAD$/.test(it) || DEFAULT_BRANCH.test(branchOf(it)));

/** The branch that a refspec writes: `HEAD:main` writes main. */
const branchOf = (refspec: string): string => refspec.slice(refspec.lastIndexOf(':') + 1);
