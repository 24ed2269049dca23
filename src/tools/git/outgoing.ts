/** What a push would send: commits, files, and secrets in them; shown to a person before anything leaves. */
import { redactText } from '../../base/redact.ts';
import type { Git } from './git.ts';

export interface Outgoing {
  /** The commits, newest first: hash and subject. */
  readonly commits: readonly string[];
  readonly total: number;
  readonly stat: string;
  /** Commits of the server's branch that a forced push would take away, as far as they are known here. */
  readonly lost: readonly string[];
  readonly secrets: readonly FoundSecret[];
  /** Sentences about what is not sent with it, or was not looked at. */
  readonly notes: readonly string[];
}

export interface FoundSecret {
  readonly path: string;
  readonly kind: string;
}

const COMMITS_SHOWN = 20;
const SECRETS_MAX = 50;

/** `known` are names of commits that the server has: what is reached from them stays at home. */
export async function outgoingOf(
  git: Git,
  tips: readonly [head: string, ...others: string[]],
  { known, replaced }: { known: readonly string[]; replaced?: string | undefined },
): Promise<Outgoing> {
  const [head] = tips;
  const range = [...tips, '--not', ...known];
  const lines = async (args: readonly string[]) =>
    (await git.run(args)).stdout.toString('utf8').split('\n').filter(Boolean);
  const commits = await lines(['log', '--format=%h %s', `--max-count=${COMMITS_SHOWN}`, ...range, '--']);
  const [total = '0'] = await lines(['rev-list', '--count', ...range, '--']);
  const lost =
    replaced === undefined
      ? []
      : await lines(['log', '--format=%h %s', `--max-count=${COMMITS_SHOWN}`, replaced, '--not', head, '--']);
  const patch = await git.run([
    'log',
    '--format=',
    '-p',
    '-m',
    '-U0',
    '--no-color',
    '--no-ext-diff',
    '--no-textconv',
    '--no-renames',
    ...range,
    '--',
  ]);
  const text = patch.stdout.toString('latin1');
  const notes = [
    ...(patch.cut ? ['The changes are too many to look for secrets in all of them.'] : []),
    ...(/^\+version https:\/\/git-lfs\.github\.com\/spec/m.test(text)
      ? ['Objects of LFS are not sent: `git lfs push` does that.']
      : []),
    ...(/^\+Subproject commit /m.test(text) ? ['Commits of submodules are not sent with it.'] : []),
  ];
  const base = known.find((it) => it !== head) ?? EMPTY_TREE;
  const stat = await git.try([
    'diff',
    '--stat=100',
    '--stat-count=20',
    '--no-ext-diff',
    '--no-textconv',
    base,
    head,
    '--',
  ]);
  return {
    commits,
    total: Number(total),
    lost,
    stat: stat.stdout.toString('utf8').trimEnd(),
    secrets: secretsIn(text),
    notes,
  };
}

/** What git compares a branch with that the server does not know. */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';

/** Secrets in the lines that a patch adds. */
function secretsIn(patch: string): FoundSecret[] {
  const found = new Map<string, FoundSecret>();
  let path = '';
  for (const file of patch.split(/^diff --git /m)) {
    path = /^\+\+\+ "?b\/(.*?)"?$/m.exec(file)?.[1] ?? path;
    const added = file
      .split('\n')
      .filter((it) => it.startsWith('+') && !it.startsWith('+++'))
      .map((it) => it.slice(1));
    redactText(added.join('\n'), (kind) => {
      if (found.size < SECRETS_MAX) found.set(`${path} ${kind}`, { path, kind });
    });
  }
  return [...found.values()];
}
