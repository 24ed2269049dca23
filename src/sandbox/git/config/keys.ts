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

/**
 * Why a command may not set a key to these values, or remove it (no values); undefined if it may. `had`: the present values. The
 * targets of the person's pushes can't be changed, or a command without a network could have the person send data out.
 */
export function whyRefused(key: string, values: readonly string[], had: readonly string[] = []): string | undefined {
  if (had.length > 0 && /^remote\..+\.url$/s.test(key)) return LEADS;
  if (had.length > 0 && values.length === 0 && key.startsWith('remote.')) return LEADS;
  if (had.length > 0 && values.length > 0 && /^branch\..+\.remote$/s.test(key)) return FOLLOWS;
  const check = isText(key) && KEYS.find(([pattern]) => pattern.test(key))?.[1];
  if (!check) return 'it is not among the keys that commands may set';
  return values.every(check) ? undefined : 'commands may not give it this value';
}

const LEADS = 'commands may add a remote, and neither change where one leads nor remove it';
const FOLLOWS = 'commands may not change which remote a branch follows';

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
