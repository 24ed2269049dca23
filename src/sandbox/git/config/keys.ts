/**
 * Lists the keys of a repository's config that a command may set. The person's git obeys that file, and many keys name a program, a
 * hook, a file to read or another place to fetch from; so this lists the keys that name none, with their permitted values.
 */

type Check = (value: string) => boolean;

const oneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    words.includes(value);
const isBoolean = oneOf('true', 'false');
const isText: Check = (value) => value.length <= 1024 && !/\p{Cc}/u.test(value);
const isProse: Check = (value) => value.length <= 8192 && !/[^\P{Cc}\n]/u.test(value);

/** git reads `name::rest` as the program `git-remote-name`, a path as a repository whose hooks run, and a leading `-` as an option. */
const isUrl: Check = (value) =>
  value.length <= 2048 &&
  (/^(?:https?|ssh|git):\/\/(?:[^\s\p{Cc}/@-][^\s\p{Cc}/@]*@)?[A-Za-z0-9[][^\s\p{Cc}]*$/u.test(value) ||
    /^(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9][\w.-]*:(?![:/]*-)(?!:|\/\/)[^\s\p{Cc}]+$/u.test(value));

/** git reads a value that names no remote as a path or URL: `danglingRemotes` checks that the remote exists. */
const isRemote: Check = (value) => value === '.' || /^[A-Za-z0-9_][\w./-]*$/.test(value);
const isRef: Check = (value) => value.length <= 1024 && /^(?!-)[^\s\p{Cc}~^:?*[\\]+$/u.test(value);
/** A fetch writes tracking refs and tags only, so that the person's own branches stay as they are. */
const isFetchRefspec: Check = (value) =>
  value.length <= 1024 && /^[+^]?(?!-)[^\s\p{Cc}~?[\\:]+(?::refs\/(?:remotes|tags)\/[^\s\p{Cc}~?[\\:]+)?$/u.test(value);

const REBASE = oneOf('true', 'false', 'merges', 'interactive');
const ON_OR_ONLY = oneOf('true', 'false', 'only');

const KEYS: readonly (readonly [RegExp, Check])[] = [
  [/^(?:user|author|committer)\.(?:name|email)$/, isText],
  [/^user\.useconfigonly$/, isBoolean],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.url$/, isUrl],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.fetch$/, isFetchRefspec],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.(?:prune|prunetags|skipfetchall|skipdefaultupdate)$/, isBoolean],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.tagopt$/, oneOf('--tags', '--no-tags')],
  [/^branch\..+\.remote$/, isRemote],
  [/^branch\..+\.merge$/, isRef],
  [/^branch\..+\.rebase$/, REBASE],
  [/^branch\..+\.description$/, isProse],
  [/^branch\.autosetup(?:merge|rebase)$/, oneOf('true', 'false', 'always', 'never', 'local', 'remote', 'simple')],
  [/^core\.(?:ignorecase|filemode|precomposeunicode|quotepath|untrackedcache|logallrefupdates)$/, isBoolean],
  [/^core\.sparsecheckout(?:cone)?$/, isBoolean],
  [/^core\.(?:autocrlf|safecrlf)$/, oneOf('true', 'false', 'input', 'warn')],
  [/^core\.eol$/, oneOf('lf', 'crlf', 'native')],
  [/^push\.default$/, oneOf('nothing', 'current', 'upstream', 'tracking', 'simple')],
  [/^push\.(?:autosetupremote|followtags)$/, isBoolean],
  [/^pull\.rebase$/, REBASE],
  [/^(?:pull|merge)\.ff$/, ON_OR_ONLY],
  [/^merge\.conflictstyle$/, oneOf('merge', 'diff3', 'zdiff3')],
  [/^fetch\.(?:prune|prunetags)$/, isBoolean],
  [/^rebase\.(?:autostash|autosquash|updaterefs)$/, isBoolean],
  [/^submodule\..+\.url$/, isUrl],
  [/^submodule\..+\.active$/, isBoolean],
  [/^submodule\..+\.branch$/, isRef],
  // Any other value that starts with `!` names a program.
  [/^submodule\..+\.update$/, oneOf('checkout', 'rebase', 'merge', 'none')],
  [/^submodule\.active$/, isText],
  [/^submodule\.recurse$/, isBoolean],
  [/^index\.sparse$/, isBoolean],
  [/^lfs\.repositoryformatversion$/, oneOf('0')],
];

type Values = ReadonlyMap<string, readonly string[]>;
const NONE: Values = new Map();

/**
 * Why a command may not set a key to these values, or remove it (no values); undefined if it may. `has`: the present config. The
 * targets of the person's pushes can't be changed, or a command without a network could have the person send data out.
 */
export function whyRefused(key: string, values: readonly string[], has: Values = NONE): string | undefined {
  const had = has.get(key) ?? [];
  if (had.length > 0 && values.length === 0 && key.startsWith('remote.')) return STAYS;
  if (had.length > 0 && URL_KEY.test(key) && !leadsToTheSame(had, values)) return LEADS;
  if (key === 'remote.origin.url' && had.length === 0 && !isOnlyRemoteAgain(values, has)) return ORIGIN;
  const why = SPECIAL.find(([pattern]) => pattern.test(key))?.[1];
  if (why !== undefined) return why;
  if (key === 'core.hookspath' && values.length === 1 && /^[\w.][\w./-]*$/.test(values[0] as string))
    return `git would run what is there: if it is wanted, a person runs \`git config core.hooksPath ${values[0]}\``;
  const check = isText(key) && KEYS.find(([pattern]) => pattern.test(key))?.[1];
  if (!check) return 'it is not among the keys that commands may set';
  return values.every(check) ? undefined : 'commands must not set this value';
}

const WORKTREE_KEY = /^(?:core\.sparsecheckout(?:cone)?|index\.sparse)$/;

/** The same for a `config.worktree`, which git reads after the config: a second URL there would be pushed to as well. */
export const whyRefusedInWorktree = (key: string, values: readonly string[]): string | undefined =>
  WORKTREE_KEY.test(key) ? whyRefused(key, values) : 'commands may only set a sparse checkout for one work tree';

/** The path of a repository: no other transport, and no option. */
const isPath: Check = (value) => isText(value) && /^(?:file:\/\/\/)?[^-!:][^:]*$/.test(value);
const isNumber: Check = (value) => /^\d{1,12}$/.test(value);
const MIRRORED = /^\+?refs\/[\w*./-]+:refs\/[\w*./-]+$/;

/** Keys of a repository that a command makes, beside the others: what git writes itself, and what switches something off. */
const KEYS_OF_NEW: readonly (readonly [RegExp, Check])[] = [
  [/^core\.repositoryformatversion$/, oneOf('0', '1')],
  [/^core\.(?:bare|symlinks|fscache|longpaths)$/, isBoolean],
  [/^core\.worktree$/, (value) => isPath(value) && !value.startsWith('/')],
  [/^core\.(?:hookspath|excludesfile)$/, oneOf('/dev/null')],
  [/^core\.(?:fsmonitor|sharedrepository)$/, oneOf('false', '0')],
  [/^(?:commit|tag)\.gpgsign$/, oneOf('false')],
  [/^extensions\.objectformat$/, oneOf('sha1', 'sha256')],
  [/^extensions\.refstorage$/, oneOf('files', 'reftable')],
  [/^extensions\.partialclone$/, isRemote],
  // Each `config.worktree` is judged as the config is.
  [/^extensions\.worktreeconfig$/, isBoolean],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.url$/, isPath],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.fetch$/, (value) => MIRRORED.test(value)],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.(?:mirror|promisor)$/, isBoolean],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.partialclonefilter$/, isText],
  [/^submodule\..+\.url$/, isPath],
  [/^gc\.(?:auto|autodetach|autopacklimit)$/, (value) => isBoolean(value) || isNumber(value)],
  [/^receive\.denycurrentbranch$/, oneOf('ignore', 'warn', 'refuse', 'updateInstead')],
  [/^advice\.\w+$/, isBoolean],
];

/** Why a repository that a command makes may not have a key with these values; undefined if it may. */
export function whyRefusedInNew(key: string, values: readonly string[]): string | undefined {
  const isKnown = KEYS_OF_NEW.some(([pattern, check]) => pattern.test(key) && isText(key) && values.every(check));
  return isKnown ? undefined : whyRefused(key, values);
}

const URL_KEY = /^remote\..+\.url$/s;
const LEADS =
  'commands may give a remote the https or ssh address of the same repository, and no other; a new remote may have any address';
const STAYS = 'commands may not remove a remote: its name could then be given to another address';
const FOLLOWS = 'commands may not change which remote a branch follows, except to one with the same address';
const ORIGIN = '`origin` is where git pushes to unless told otherwise, and there is a remote of another name already';

/** Keys with a reason of their own. */
const SPECIAL: readonly (readonly [RegExp, string])[] = [
  [/^filter\.lfs\./, "it names a program, git-lfs: commands have the person's settings of it from `git lfs install`"],
  [
    /^extensions\.worktreeconfig$/,
    'git would read each `config.worktree`, which commands can make: in the main work tree, a sparse checkout works without it',
  ],
];

/** A repository on a server, as https and ssh name it; undefined for any other address. */
function repositoryOf(url: string): string | undefined {
  const [, host, path] =
    /^https:\/\/(?:[^\s@/]+@)?([\w.-]+)\/(.+)$/.exec(url) ??
    /^ssh:\/\/git@([\w.-]+)\/(.+)$/.exec(url) ??
    /^git@([\w.-]+):(?!\/)(.+)$/.exec(url) ??
    [];
  if (host === undefined || path === undefined || /[%?#~\\\s]|\.\.|\/\//.test(path)) return undefined;
  return `${host.toLowerCase()}/${path.replace(/\/$/, '').replace(/\.git$/, '')}`;
}

function leadsToTheSame(had: readonly string[], values: readonly string[]): boolean {
  const [before, after] = [had, values].map(([url = '', ...more]) => (more.length > 0 ? undefined : repositoryOf(url)));
  return before !== undefined && before === after;
}

const urlsOf = (values: Values): [string, readonly string[]][] => [...values].filter(([key]) => URL_KEY.test(key));

/** Whether there is no remote, or only one with the same addresses, as while git renames it. */
function isOnlyRemoteAgain(values: readonly string[], has: Values): boolean {
  const urls = urlsOf(has);
  return urls.length === 0 || (urls.length === 1 && isEqual(urls[0]?.[1], values));
}

const isEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

const FOLLOWED = /^branch\..+\.remote$/s;

/** Why a branch may not follow another remote: `before` and `after` are the whole config. */
export function followsElsewhere(key: string, before: Values, after: Values): string | undefined {
  const [had, values] = [before.get(key) ?? [], after.get(key) ?? []];
  if (!FOLLOWED.test(key) || had.length === 0 || values.length === 0) return undefined;
  const addresses = (config: Values, [name = '', ...more]: readonly string[]) =>
    more.length > 0 ? undefined : ['url', 'pushurl'].map((it) => config.get(`remote.${name}.${it}`) ?? []);
  const [old, now] = [addresses(before, had), addresses(after, values)];
  return old !== undefined && old[0]?.length !== 0 && isEqual(old, now) ? undefined : FOLLOWS;
}

/** Why a branch goes on following a remote: the command removed both, and the remote stays. */
export function wasRemoved(
  key: string,
  changes: Values,
  { has, refused }: { readonly has: Values; readonly refused: readonly { readonly key: string }[] },
): string | undefined {
  const branch = /^(branch\..+)\.(?:remote|merge)$/s.exec(key)?.[1];
  if (branch === undefined || changes.get(key)?.length !== 0) return undefined;
  const stays = (name: string) => refused.some((it) => it.key === `remote.${name}.url`);
  return has.get(`${branch}.remote`)?.some(stays) ? 'the remote that the branch follows stays' : undefined;
}

/** Finds remotes that are used or configured but have no URL: git would read such a name as a path. */
export function danglingRemotes(values: ReadonlyMap<string, readonly string[]>): Set<string> {
  const used = [...values].filter(([key]) => USES_REMOTE.test(key)).flatMap(([, names]) => names);
  const setUp = [...values.keys()].flatMap((key) => /^remote\.(.+)\.[^.]+$/s.exec(key)?.[1] ?? []);
  return new Set([...used, ...setUp].filter((it) => it !== '.' && !values.has(`remote.${it}.url`)));
}

const USES_REMOTE = /^(?:branch\..+\.(?:remote|pushremote)|remote\.pushdefault)$/;

/** Whether a change affects that remote. */
export const concerns = (remote: string, key: string, values: readonly string[]): boolean =>
  key.startsWith(`remote.${remote}.`) || (USES_REMOTE.test(key) && values.includes(remote));
