/** Settings with which git runs no program that a repository, a person or the machine names, and connects to nothing. */

/** Settings that override the repository's config. */
export const CLEAN_OPTIONS: readonly string[] = Object.entries({
  'core.fsmonitor': 'false',
  'core.hooksPath': '/dev/null',
  'core.pager': 'cat',
  'core.editor': 'false',
  'core.askPass': 'false',
  'core.sshCommand': 'false',
  'core.quotePath': 'false',
  'credential.helper': '',
  'protocol.allow': 'never',
  'commit.gpgSign': 'false',
  'tag.gpgSign': 'false',
  'log.showSignature': 'false',
  'log.mailmap': 'false',
  'core.checkStat': 'minimal',
  // A file of the repository says there which commits a commit has for parents.
  'core.commitGraph': 'false',
  'diff.orderFile': '/dev/null',
  'submodule.recurse': 'false',
  'user.useConfigOnly': 'true',
  'gc.auto': '0',
  'maintenance.auto': 'false',
}).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

/** Keeps git from the machine's settings, from the network, and from questions. */
export const CLEAN_ENVIRONMENT: Readonly<Record<string, string>> = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_PAGER: 'cat',
  GIT_EDITOR: 'false',
  // Allows no protocol; overrides `protocol.<name>.allow` of a config, which in turn overrides `protocol.allow`.
  GIT_ALLOW_PROTOCOL: 'none',
  GIT_NO_LAZY_FETCH: '1',
  // Replacements and grafts would show a history other than the one that the hashes name; git prints a hint if it finds a grafts file.
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_GRAFT_FILE: '/nonexistent',
  LC_ALL: 'C.UTF-8',
};
