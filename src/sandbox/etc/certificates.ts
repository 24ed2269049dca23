/**
 * The authorities that the machine trusts, and those of files that only the daemon's environment names: a company's own, whose proxy signs for
 * all hosts. curl and git read the machine's store by themselves; Node, pip, Java and Pythons of version managers bring a store of their own.
 */
import { hash, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { textAt } from '../../base/quiet/reads.ts';
import { readText } from '../../policy/secrets/ordinary-paths.ts';
import { ownEtc } from './settings.ts';

/** The store as one file: Debian and Arch, Fedora, Alpine. */
const BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/ssl/cert.pem',
];
const machine = BUNDLES.filter((it) => existsSync(it)).map((it) => realpathSync(it))[0];
const isShown = machine?.startsWith('/etc/') === true;

/** Path of the store in sandboxes: the machine's, so that all programs find it. */
export const STORE = machine !== undefined && isShown ? machine : '/etc/authorities.pem';
/** Name of Java's store in the /etc of commands. */
export const JAVA_STORE = 'authorities.jks';
const OWN = STORE.slice('/etc/'.length);

/** The file outside of sandboxes that holds what they trust. */
export function storeIn(stateDir: string): string {
  const own = join(ownEtc(stateDir), OWN);
  return machine === undefined || existsSync(own) ? own : machine;
}

/** The names of the files in our own /etc that hold authorities. */
export const certificatesIn = (folder: string): string[] =>
  [OWN, JAVA_STORE].filter((it) => existsSync(join(folder, it)));

/** Variables by which Python trusts a store too; on a machine without one, so do curl and git. */
const variablesFor = (store: string): Readonly<Record<string, string>> => ({
  SSL_CERT_FILE: store,
  REQUESTS_CA_BUNDLE: store,
  PIP_CERT: store,
  ...(isShown ? {} : { CURL_CA_BUNDLE: store, GIT_SSL_CAINFO: store }),
});
/** The same, and for Node of any version. */
export const certificateVariablesFor = (store: string): Readonly<Record<string, string>> => ({
  ...variablesFor(store),
  NODE_EXTRA_CA_CERTS: store,
});
export const certificateVariables = certificateVariablesFor(STORE);

/**
 * The variables of commands. Before Node 22.19 and 24.5, Node reads all authorities when it starts if it is given any: 38 ms become 111. So it
 * is told of the store where that has more than came with the system.
 */
export const commandCertificates = (named: readonly string[]): Readonly<Record<string, string>> =>
  isAnyAdded(named) ? certificateVariables : variablesFor(STORE);

/** Folders with the authorities that come with the system: of Debian, Alpine and Arch; of Fedora. */
const WITH_SYSTEM = ['/usr/share/ca-certificates', '/usr/share/pki/ca-trust-source'];

/** Whether an authority is trusted here that came neither with the system nor with Node. */
function isAnyAdded(named: readonly string[]): boolean {
  const own = WITH_SYSTEM.flatMap((folder) => filesIn(folder)).flatMap((it) => textAt(it) ?? []);
  const known = new Set([...rootCertificates, ...own].flatMap(blocksOf).map((it) => it.toString('base64')));
  const trusted = [...named.flatMap(namedAt), ...blocksOf((machine && textAt(machine)) ?? '')];
  return trusted.some((it) => !known.has(it.toString('base64')));
}

const filesIn = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((it) => it.isFile())
        .map((it) => join(it.parentPath, it.name))
    : [];

/** Distributions' stores have 0.2 MiB. */
const FILE_BYTES_MAX = 2 * 1024 * 1024;
const BLOCK = /-----BEGIN CERTIFICATE-----[\w+/=\s]+-----END CERTIFICATE-----/g;

/** The blocks of a text, as bytes. */
const blocksOf = (text: string): Buffer[] =>
  (text.match(BLOCK) ?? []).map((it) => Buffer.from(it.replace(/-----[A-Z ]+-----/g, ''), 'base64'));

/** The certificates in a file that is named: nothing else of it, no key that stands beside them. */
function namedAt(path: string): Buffer[] {
  const isCertificate = (raw: Buffer) => {
    try {
      return new X509Certificate(raw).raw.equals(raw);
    } catch {
      return false; // ERR_OSSL: damaged.
    }
  };
  try {
    return blocksOf(readText(realpathSync(path), FILE_BYTES_MAX)).filter(isCertificate);
  } catch {
    return []; // ENOENT, EACCES, ELOOP; or it is too large, or no text.
  }
}

/**
 * Writes Java's store and, where there is more than the machine's, the one of all others into the folder of our own /etc, in place of those of
 * an earlier daemon. Gives the files in which there is no certificate.
 */
export function writeCertificates(folder: string, named: readonly string[]): string[] {
  const found = named.map((path) => ({ path, all: namedAt(path) }));
  const base = blocksOf(machine === undefined ? rootCertificates.join('\n') : readFileSync(machine, 'utf8'));
  const all = [...base];
  for (const raw of found.flatMap((it) => it.all)) if (!all.some((it) => it.equals(raw))) all.push(raw);
  const own = join(folder, OWN);
  rmSync(own, { force: true });
  mkdirSync(dirname(own), { recursive: true });
  if (all.length > base.length || !isShown) writeFileSync(own, all.map(toPem).join(''));
  writeFileSync(join(folder, JAVA_STORE), toKeystore(all));
  return found.flatMap((it) => (it.all.length === 0 ? [it.path] : []));
}

const toPem = (raw: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${raw.toString('base64').replace(/.{64}/g, '$&\n').trimEnd()}\n-----END CERTIFICATE-----\n`;

/** Java's format of stores, JKS, which every version reads; a store of certificates has this password by custom. */
function toKeystore(all: readonly Buffer[]): Buffer {
  const number = (value: number, bytes = 4) => Buffer.from(value.toString(16).padStart(2 * bytes, '0'), 'hex');
  const text = (it: string) => Buffer.concat([number(it.length, 2), Buffer.from(it)]);
  const [TRUSTED, VERSION, NO_DATE] = [number(2), number(2), number(0, 8)];
  const entries = all.flatMap((raw, i) => [
    ...[TRUSTED, text(`authority-${i}`), NO_DATE, text('X.509'), number(raw.length), raw],
  ]);
  const content = Buffer.concat([Buffer.from('feedfeed', 'hex'), VERSION, number(all.length), ...entries]);
  const seal = Buffer.concat([Buffer.from('changeit', 'utf16le').swap16(), Buffer.from('Mighty Aphrodite'), content]);
  return Buffer.concat([content, hash('sha1', seal, 'buffer')]);
}
