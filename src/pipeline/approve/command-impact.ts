/** What well-known programs do, shown to a person who decides; never a permission. Architecture invariant: pure. */
import { visibleInLine } from '../../base/text/shown-text.ts';
import type { SimpleCommand } from '../../policy/question.ts';
import type { Impact, ImpactLevel } from '../../store/approvals/approval.ts';

export interface CommandImpact {
  readonly level: ImpactLevel;
  readonly kind: 'reads' | 'modifies' | 'deletes' | 'remote' | 'installs' | 'privileged' | 'runs' | 'unclear';
}

const impact = (level: ImpactLevel, kind: CommandImpact['kind']): CommandImpact => ({ level, kind });
const READS = impact('low', 'reads');
const RUNS = impact('medium', 'runs');
const modifiesIf = (writes: boolean): CommandImpact => (writes ? impact('medium', 'modifies') : READS);
const set = (words: string): ReadonlySet<string> => new Set(words.split(' '));

const READING = set(
  'ls cat head tail wc grep egrep fgrep pwd echo printf true false test [ date whoami id which file stat du df ' +
    'cut tr diff cmp basename dirname realpath readlink seq sleep nl od hexdump strings md5sum sha1sum sha256sum sha512sum ' +
    'cksum jq less more column fold comm join paste expr uname nproc ps free uptime groups locale type cd',
);
const DELETING = set('rm rmdir unlink shred dd truncate mkfs wipefs fdisk parted blkdiscard');
const PRIVILEGED = set('sudo su doas pkexec run0 setpriv chroot');
const REMOTE = set(
  'curl wget ssh scp sftp rsync ftp lftp nc ncat netcat socat telnet gh glab aws gcloud az doctl heroku vercel netlify fly flyctl ' +
    'kubectl helm terraform tofu pulumi ansible ansible-playbook docker podman mail sendmail mutt s3cmd rclone',
);
const SYSTEM = set(
  'systemctl service reboot shutdown halt poweroff crontab at mount umount iptables nft useradd userdel passwd',
);
const SHELLS = set('sh bash dash zsh ksh fish');
const INTERPRETERS = set(
  'python python2 python3 node deno bun perl ruby php lua awk gawk mawk osascript tclsh Rscript make',
);
/** Programs that fetch a package and run it. */
const RUNNERS = set('npx bunx uvx pnpx');
const FETCHERS = set('curl wget');
/** Programs that only read unless an option makes them write or run something; an unknown word could be that option. */
const READING_BY_OPTION: Readonly<Record<string, (args: readonly string[]) => CommandImpact>> = {
  git: impactOfGit,
  find: impactOfFind,
  // GNU programs accept abbreviated long options.
  sort: (args) =>
    args.some((it) => it.startsWith('--co')) ? RUNS : modifiesIf(args.some((it) => /^-(\w*o|-o)/.test(it))),
  rg: (args) => (args.some((it) => /^--(pre|hostname-bin)/.test(it)) ? RUNS : READS),
  tree: (args) => modifiesIf(args.some((it) => /^-[a-zA-Z]*o/.test(it))),
  uniq: (args) => modifiesIf(args.filter((it) => !it.startsWith('-')).length > 1),
};

/** Package managers with the sub-commands that change what is installed. */
const INSTALLERS: Readonly<Record<string, ReadonlySet<string>>> = {
  npm: set('install i ci add update up upgrade uninstall remove rm exec x link dedupe rebuild'),
  pnpm: set('install i add update up remove rm dlx exec link'),
  yarn: set('install add upgrade up remove dlx link'),
  bun: set('install i add update remove x'),
  pip: set('install uninstall download wheel'),
  pip3: set('install uninstall download wheel'),
  pipx: set('install uninstall upgrade run inject'),
  uv: set('add remove sync pip tool run'),
  poetry: set('install add update remove'),
  apt: set('install remove purge upgrade full-upgrade autoremove'),
  'apt-get': set('install remove purge upgrade dist-upgrade autoremove'),
  dnf: set('install remove upgrade update erase'),
  yum: set('install remove upgrade update erase'),
  apk: set('add del upgrade'),
  pacman: set('-S -Sy -Syu -R -Rs -U'),
  brew: set('install uninstall upgrade reinstall remove'),
  snap: set('install remove refresh'),
  cargo: set('install uninstall add remove update'),
  gem: set('install uninstall update'),
  go: set('install get'),
  composer: set('install require update remove'),
};
const PUBLISHING = set('publish unpublish deprecate push login adduser owner dist-tag deploy');
/** Programs whose sub-commands in PUBLISHING affect remote systems. */
const PUBLISHERS = set('npm pnpm yarn bun cargo gem poetry twine uv mvn gradle');

const GIT_READING = set(
  'status diff log show blame grep ls-files ls-tree rev-parse describe shortlog cat-file rev-list version help',
);
const GIT_REMOTE = set('push send-email request-pull svn p4');
/** Sub-commands that change the repository or its files; they run other code only through hooks and settings. */
const GIT_CHANGING = set(
  'add am apply branch checkout cherry-pick commit commit-tree config format-patch hash-object init merge mv notes read-tree ' +
    'remote reset revert rm sparse-checkout stash switch symbolic-ref tag update-index worktree write-tree',
);
const GIT_LOSING = set('clean restore rebase filter-branch filter-repo gc prune reflog update-ref replace');
/** Global options of git that take the next word as their value. */
const GIT_TAKING = set('-C -c --git-dir --work-tree --namespace --exec-path --config-env');

/** What one simple command does, judged by its words; for an unknown command the worst that its words suggest. */
export function impactOfCommand({ words, program, unknown }: SimpleCommand): CommandImpact {
  if (unknown === undefined && program === undefined) return ofForeign(impactOfWords(words));
  if (unknown === undefined) return impactOfWords([program, ...words.slice(1)]);
  // A wrapper, or an assignment, stands before what runs: `xargs rm -rf`, `env -i sh -c …`.
  return words
    .slice(0, WRAPPED_WORDS_MAX)
    .map((_, at) => impactOfWords(words.slice(at, at + ARGUMENTS_MAX)))
    .reduce((worst, it) => (it.level === 'high' && worst.level !== 'high' ? it : worst), impact('medium', 'unclear'));
}

/** A program outside the system's directories does what its file says, whatever its name. */
const ofForeign = (byName: CommandImpact): CommandImpact => (byName.level === 'high' ? byName : RUNS);

const WRAPPED_WORDS_MAX = 16;

type CommandWords = readonly (string | undefined)[];

function impactOfWords(words: CommandWords): CommandImpact {
  const name = baseName(words[0]);
  if (name === undefined) return impact('medium', 'unclear');
  const args = words.slice(1, ARGUMENTS_MAX);
  const known = args.filter((it) => it !== undefined);
  if (DELETING.has(name) || name.startsWith('mkfs.')) return impact('high', 'deletes');
  if (PRIVILEGED.has(name) || SYSTEM.has(name)) return impact('high', 'privileged');
  if (REMOTE.has(name)) return impact('high', 'remote');
  if (PUBLISHERS.has(name) && known.some((it) => PUBLISHING.has(it))) return impact('high', 'remote');
  if (INSTALLERS[name] && (known.some((it) => INSTALLERS[name]?.has(it)) || isBareYarn(name, args)))
    return impact('high', 'installs');
  if (RUNNERS.has(name)) return impact('high', 'installs');
  if (name === 'chmod' || name === 'chown' || name === 'chgrp')
    return impact(known.some((it) => it === '--recursive' || /^-[a-zA-Z]*R/.test(it)) ? 'high' : 'medium', 'modifies');
  if (SHELLS.has(name) || INTERPRETERS.has(name) || runsProject(name, known)) return impact('medium', 'runs');
  const byOption = READING_BY_OPTION[name];
  if (byOption) {
    const found = byOption(known);
    return found.level === 'low' && known.length < args.length ? impact('medium', 'unclear') : found;
  }
  return READING.has(name) ? impact('low', 'reads') : impact('medium', 'modifies');
}

/** Whether the program runs code from files of the project or from its own options. */
function runsProject(name: string, args: readonly string[]): boolean {
  if (BUILDERS.has(name)) return true;
  if (PROJECT_VERBS[name] !== undefined) return args.some((it) => PROJECT_VERBS[name]?.has(it));
  if (name === 'tar')
    return args.some(
      (it) =>
        // Each prefix is the shortest abbreviation that tar accepts.
        /^--(to-c|checkpoint-a|us|rs|rm|inf|new-)/.test(it) || /^-[a-zA-Z]*[IF]/.test(it),
    );
  if (name === 'vim' || name === 'vi' || name === 'nvim' || name === 'ex' || name === 'emacs')
    return args.some((it) => /^(-[cSsue]|--cmd|--eval|--load|\+)/.test(it));
  // GNU sed's `e` runs a command, as a command of its own or as a flag of `s`. This does not parse the script, so it may match too much.
  return (
    (name === 'sed' || name === 'gsed') &&
    args.some(
      (it) => !it.startsWith('-') && /(^|[;{}\d$/!\n ])e|[|/#,@:!][a-zA-Z0-9]*e[a-zA-Z0-9]*($|[;}\n ])/.test(it),
    )
  );
}

const BUILDERS = set(
  'pytest tox nox gradle gradlew mvn mvnw ant cmake ninja gmake just task rake bundle jest vitest mocha webpack vite rollup',
);
const SCRIPT_VERBS = set('run run-script test t tst start stop restart exec publish pack version build dev lint');
const PROJECT_VERBS: Readonly<Record<string, ReadonlySet<string>>> = {
  npm: SCRIPT_VERBS,
  pnpm: SCRIPT_VERBS,
  yarn: SCRIPT_VERBS,
  cargo: set('build run test bench check clippy doc b r t c rustc'),
  go: set('run generate test build vet tool'),
  poetry: set('run'),
  uv: set('run'),
};

/** The most words of a command that are judged; a line of 128 KiB has more than a person would read. */
const ARGUMENTS_MAX = 256;

const isBareYarn = (name: string, args: CommandWords): boolean => name === 'yarn' && args.length === 0;

function impactOfGit(args: readonly string[]): CommandImpact {
  let at = 0;
  for (; args[at]?.startsWith('-'); at++) {
    if (args[at] === '-c' || args[at]?.startsWith('--config-env') || args[at]?.startsWith('--exec-path'))
      return impact('high', 'runs');
    // With --git-dir the settings come from another repository.
    if (args[at]?.startsWith('--git-dir')) {
      const inner = impactOfGit(args.slice(at + (args[at] === '--git-dir' ? 2 : 1)));
      return inner.level === 'high' ? inner : RUNS;
    }
    if (GIT_TAKING.has(args[at] as string)) at += 1;
  }
  const [verb, ...rest] = args.slice(at);
  if (verb === undefined) return impact('low', 'reads');
  const names = rest.map((it) => it.replace(/=.*/s, ''));
  // Git accepts abbreviated long options (`git grep --open=./x`); `--text` is a whole option.
  const has = (...options: string[]) =>
    names.some((it) => options.some((of) => of === it || (/^--\w/.test(it) && it !== '--text' && of.startsWith(it))));
  if (GIT_REMOTE.has(verb)) return impact('high', 'remote');
  const loses =
    GIT_LOSING.has(verb) ||
    (verb === 'reset' && has('--hard', '--merge', '--keep')) ||
    (verb === 'checkout' && has('-f', '--force', '--', '.')) ||
    (verb === 'switch' && has('-f', '--force', '--discard-changes')) ||
    (verb === 'branch' && has('-D', '-d', '--delete', '-f', '--force')) ||
    (verb === 'tag' && has('-d', '--delete', '-f', '--force')) ||
    (verb === 'stash' && has('drop', 'clear')) ||
    (verb === 'worktree' && has('remove', 'prune')) ||
    (verb === 'rm' && !rest.includes('--cached')) ||
    (verb === 'commit' && has('--amend'));
  if (verb === 'rebase' && (has('--exec') || rest.some((it) => /^-\w*x/.test(it)))) return impact('high', 'runs');
  if (loses) return impact('high', 'deletes');
  if (GIT_READING.has(verb)) {
    const more =
      has('--output', '--ext-diff', '--textconv', '--open-files-in-pager') ||
      rest.some((it) => it.startsWith('-O') || (verb === 'grep' && /^-[a-zA-Z]*O/.test(it)));
    return more ? RUNS : READS;
  }
  if (verb === 'fetch' || verb === 'pull' || verb === 'clone' || verb === 'submodule') return impact('high', 'remote');
  // Aliases, extensions, `difftool -x` and `bisect run` may run anything.
  return GIT_CHANGING.has(verb) ? impact('medium', 'modifies') : RUNS;
}

function impactOfFind(args: readonly string[]): CommandImpact {
  if (args.includes('-delete')) return impact('high', 'deletes');
  const at = args.findIndex((it) => /^-(exec|execdir|ok|okdir)$/.test(it));
  if (at >= 0) {
    const { level, kind } = impactOfWords(args.slice(at + 1));
    return impact(level === 'high' ? 'high' : 'medium', level === 'high' ? kind : 'runs');
  }
  return args.some((it) => it.startsWith('-fprint') || it === '-fls')
    ? impact('medium', 'modifies')
    : impact('low', 'reads');
}

/** Options with which interpreters take code as words. Matching too much is safe: the answer is then not remembered. */
const INLINE: readonly (readonly [program: RegExp, option: RegExp])[] = [
  [/^(sh|bash|dash|zsh|ksh|fish)$/, /^-[a-zA-Z]*c/],
  [/^(python|pypy)[\d.]*$/, /^-[a-zA-Z]*c/],
  [/^(node|nodejs|bun|deno)$/, /^(-[a-z]*[ep]|--eval|--print|eval$)/],
  [/^perl[\d.]*$/, /^-[a-zA-Z0-9]*[eE]/],
  [/^(ruby|lua|luajit|osascript|Rscript|tclsh|R)[\d.]*$/, /^-[a-zA-Z]*e/],
  [/^php[\d.]*$/, /^-[rBRE]/],
  [/^[gmn]?awk$/, /^[^-]/],
];

/** Whether a command has code for an interpreter in its words: `node -e`, `sh -c`. */
export function hasInlineCode(commands: readonly SimpleCommand[]): boolean {
  return commands.some(({ words }) =>
    words.slice(0, WRAPPED_WORDS_MAX).some((_, at) => {
      const name = baseName(words[at]) ?? '';
      const found = INLINE.find(([program]) => program.test(name));
      return found !== undefined && words.slice(at + 1).some((it) => it === undefined || found[1].test(it));
    }),
  );
}

/** Whether one command fetches what another one may run, as in `curl … | sh`. */
export function runsWhatItFetches(commands: readonly SimpleCommand[]): boolean {
  const names = new Set(commands.flatMap(({ program, words }) => [program ?? baseName(words[0])]));
  const any = (of: ReadonlySet<string>) => [...of].some((it) => names.has(it));
  return any(FETCHERS) && (any(SHELLS) || any(INTERPRETERS));
}

function baseName(word: string | undefined): string | undefined {
  return word === undefined ? undefined : word.slice(word.lastIndexOf('/') + 1);
}

/** Escapes invisible characters: paths and commands come from the agent. */
export const withVisibleText = ({ level, description, warnings }: Impact): Impact => ({
  level,
  description: visibleInLine(description),
  warnings: warnings.map(visibleInLine),
});
