/** Names the hosts that a command's words point to: URLs, targets of ssh, and the registries of package managers. Pure. */
import type { SimpleCommand } from '../question.ts';

export interface NamedHost {
  readonly host: string;
  readonly port: number;
}

const REGISTRIES: Readonly<Record<string, { readonly verbs: RegExp; readonly host: string }>> = {
  npm: { verbs: /^(i|install|ci|add|update|exec|view|audit|outdated)$/, host: 'registry.npmjs.org' },
  pnpm: { verbs: /^(i|install|add|update|dlx|audit|outdated)$/, host: 'registry.npmjs.org' },
  yarn: { verbs: /^(install|add|up|upgrade|dlx)$/, host: 'registry.yarnpkg.com' },
  pip: { verbs: /^(install|download)$/, host: 'pypi.org' },
  pip3: { verbs: /^(install|download)$/, host: 'pypi.org' },
  cargo: { verbs: /^(add|install|fetch|update)$/, host: 'index.crates.io' },
  go: { verbs: /^(get|install|mod)$/, host: 'proxy.golang.org' },
  gem: { verbs: /^(install|update)$/, host: 'rubygems.org' },
};

const PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443, 'ssh:': 22, 'git:': 9418, 'ftp:': 21 };

/** The hosts of the words, each once. What programs read elsewhere, such as a remote's address, is not known here. */
export function hostsOfWords(commands: readonly SimpleCommand[]): NamedHost[] {
  const found = commands.flatMap(({ program, words }) => [
    ...words.flatMap((it) => (it === undefined ? [] : hostOf(it))),
    ...registryOf(program, words),
  ]);
  return [...new Map(found.map((it) => [`${it.host}:${it.port}`, it])).values()];
}

function hostOf(word: string): NamedHost[] {
  const [, host] = /^[\w.-]+@([\w.-]+\.[a-z]+):/i.exec(word) ?? [];
  if (host) return [{ host, port: 22 }];
  const at = word.search(/\b[a-z]+:\/\//);
  if (at < 0) return [];
  const url = URL.parse(word.slice(at));
  const port = url ? Number(url.port) || PORTS[url.protocol] : undefined;
  return url && port && url.hostname ? [{ host: url.hostname, port }] : [];
}

function registryOf(program: string | undefined, words: SimpleCommand['words']): NamedHost[] {
  const registry = program !== undefined && Object.hasOwn(REGISTRIES, program) ? REGISTRIES[program] : undefined;
  const verb = words.slice(1).find((it) => !it?.startsWith('-'));
  return registry && verb && registry.verbs.test(verb) ? [{ host: registry.host, port: 443 }] : [];
}
