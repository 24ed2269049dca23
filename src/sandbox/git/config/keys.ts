/**
 * Which keys of a repository's config a command may set. The person's git obeys that file, and many keys name a program, a hook, a
 * file to read or another place to fetch from; so this is a list of those that name none, with what their values may be.
 */

type Check = (value: string) => boolean;

const oneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    words.includes(value);
const isBoolean = oneOf('true', 'false');
const isText: Check = (value) => value.length <= 1024 && !/\p{Cc}/u.test(value);
const isProse: Check = (value) => value.length <= 8192 && !/[^\P{Cc}\n]/u.test(value);

/** git takes `name::rest` for the program `git-remote-name`, a path for a repository whose hooks run, and a leading `-` for an option. */
const isUrl: Check = (value) =>
  value.length <= 2048 &&
  (/^(?:https?|ssh|git):\/\/(?:[^\s\p{Cc}/@-][^\s\p{Cc}/@]*@)?[A-Za-z0-9[][^\s\p{Cc}]*$/u.test(value) ||
    /^(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9][\w.-]*:(?![:/]*-)(?!:|\/\/)[^\s\p{Cc}]+$/u.test(value));

/** git takes what is no remote's name for a path, or a URL: whether there is such a remote is looked at in `danglingRemotes`. */
const isRemote: Check = (value) => value === '.' || /^[A-Za-z0-9_][\w./-]*$/.test(value);
const isRef: Check = (value) => value.length <= 1024 && /^(?!-)[^\s\p{Cc}~^:?*[\\]+$/u.test(value);
const isRefspec: Check = (value) =>
  value.length <= 1024 && /^[+^]?(?!-)[^\s\p{Cc}~?[\\:]+(?::[^\s\p{Cc}~?[\\:]*)?$/u.test(value);

const REBASE = oneOf('true', 'false', 'merges', 'interactive');
const ON_OR_ONLY = oneOf('true', 'false', 'only');

const KEYS: readonly (readonly [RegExp, Check])[] = [
  [/^(?:user|author|committer)\.(?:name|email)$/, isText],
  [/^user\.useconfigonly$/, isBoolean],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.url$/, isUrl],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.(?:fetch|push)$/, isRefspec],
  [/^remote\.[A-Za-z0-9_][\w./-]*\.(?:prune|prunetags|mirror|skipfetchall|skipdefaultupdate)$/, isBoolean],
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
  [/^push\.default$/, oneOf('nothing', 'current', 'upstream', 'tracking', 'simple', 'matching')],
  [/^push\.(?:autosetupremote|followtags)$/, isBoolean],
  [/^pull\.rebase$/, REBASE],
  [/^(?:pull|merge)\.ff$/, ON_OR_ONLY],
  [/^merge\.conflictstyle$/, oneOf('merge', 'diff3', 'zdiff3')],
  [/^fetch\.(?:prune|prunetags)$/, isBoolean],
  [/^rebase\.(?:autostash|autosquash|updaterefs)$/, isBoolean],
  [/^submodule\..+\.url$/, isUrl],
  [/^submodule\..+\.active$/, isBoolean],
  [/^submodule\..+\.branch$/, isRef],
  // Another word, with `!` before it, is a program.
  [/^submodule\..+\.update$/, oneOf('checkout', 'rebase', 'merge', 'none')],
  [/^submodule\.active$/, isText],
  [/^submodule\.recurse$/, isBoolean],
  [/^index\.sparse$/, isBoolean],
  [/^lfs\.repositoryformatversion$/, oneOf('0')],
];

/**
 * Why a command may not give a key these values, or take it away (none); undefined where it may. `had`: the values that it has. Where the
 * person's pushes go stays as it is, or a command without a network could have them send what it can't.
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

/** Remotes that are used, or set up, and that have no address: git would take such a name for a path. */
export function danglingRemotes(values: ReadonlyMap<string, readonly string[]>): Set<string> {
  const used = [...values].filter(([key]) => USES_REMOTE.test(key)).flatMap(([, names]) => names);
  const setUp = [...values.keys()].flatMap((key) => /^remote\.(.+)\.[^.]+$/s.exec(key)?.[1] ?? []);
  return new Set([...used, ...setUp].filter((it) => it !== '.' && !values.has(`remote.${it}.url`)));
}

const USES_REMOTE = /^(?:branch\..+\.(?:remote|pushremote)|remote\.pushdefault)$/;

/** Whether a change concerns that remote. */
export const concerns = (remote: string, key: string, values: readonly string[]): boolean =>
  key.startsWith(`remote.${remote}.`) || (USES_REMOTE.test(key) && values.includes(remote));
