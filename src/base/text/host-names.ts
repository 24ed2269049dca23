/** What a person should know of a host's name before they open it: whose it is, and what it only looks like. Pure. */

/** Registries and forges that package managers and git connect to. */
const COMPANIONS: readonly (readonly string[])[] = [
  ['registry.npmjs.org'],
  ['registry.yarnpkg.com', 'repo.yarnpkg.com'],
  ['pypi.org', 'files.pythonhosted.org'],
  ['index.crates.io', 'static.crates.io', 'crates.io'],
  ['proxy.golang.org', 'sum.golang.org'],
  ['github.com', 'api.github.com', 'codeload.github.com', 'objects.githubusercontent.com', 'raw.githubusercontent.com'],
  ['rubygems.org', 'index.rubygems.org'],
  ['repo.maven.apache.org', 'repo1.maven.org'],
  ['deb.debian.org', 'security.debian.org'],
  ['gitlab.com'],
  ['huggingface.co'],
];

/** Second levels below which anybody may register a name, as far as they are common. */
const PUBLIC_SECOND_LEVELS =
  /^(?:(?:ac|co|com|edu|gob|gov|ltd|me|mil|ne|net|nom|or|org|sch)\.[a-z]{2}|(?:github|gitlab|pages|netlify|vercel|web|firebaseapp|herokuapp|fly|workers|onrender|ngrok)\.(?:app|com|dev|io)|(?:ngrok-free|trycloudflare|blogspot|appspot|azurewebsites|cloudfront|amazonaws)\.(?:app|com|net))$/;

/** Whether a host in its canonical form is an IP address. */
const isAddress = (host: string): boolean => host.includes(':') || /^[\d.]+$/.test(host);

/** The part of a name that somebody registered: an approximation, since the list of public suffixes is a program's own data. */
export function registrableDomain(host: string): string {
  if (isAddress(host)) return host;
  const labels = host.split('.');
  const last = labels.slice(-2).join('.');
  return PUBLIC_SECOND_LEVELS.test(last) ? labels.slice(-3).join('.') : last;
}

/** The hosts that one yes opens together; the host itself at least. */
export const companionsOf = (host: string): readonly string[] => COMPANIONS.find((it) => it.includes(host)) ?? [host];

/** Marks of a name that only looks like another one. */
export function suspicionsOf(host: string): string[] {
  const known = COMPANIONS.flat();
  if (isAddress(host)) return ['It is an address without a name'];
  const near = known.includes(host) ? undefined : known.find((it) => isNear(host, it));
  const inside = known.find((it) => host !== it && host.includes(it) && !host.endsWith(`.${it}`));
  return [
    ...(host.includes('xn--') ? ['Its name has letters that may look like others (punycode)'] : []),
    ...((near ?? inside) ? [`It looks like ${near ?? inside} and is another host`] : []),
  ];
}

/** Whether one name becomes the other, or its domain the other's, by at most two changed letters. */
function isNear(a: string, b: string): boolean {
  const [first, second] = [registrableDomain(a), registrableDomain(b)];
  return first === second ? distance(a, b) <= 2 : distance(first, second) <= 2;
}

/** Levenshtein's distance of two short texts. */
function distance(a: string, b: string): number {
  let before = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [row, letter] of Array.from(a).entries()) {
    const next = [row + 1];
    for (const [at, other] of Array.from(b).entries()) {
      const changed = (before[at] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(changed, (before[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    before = next;
  }
  return before[b.length] ?? 0;
}
