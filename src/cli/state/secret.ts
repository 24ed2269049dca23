/** `ringfence secret set|list|remove`: works on the state directory without a daemon, which reads each secret when a request needs it. */
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { defaultLimits as limits } from '../../base/limits.ts';
import { readUpTo } from '../../base/text/bounded.ts';
import { shownSecrets } from '../../daemon/config/settings.ts';
import { readConfigFile } from '../../daemon/config.ts';
import { makeStateDir } from '../../daemon/user-dirs.ts';
import {
  bindSecret,
  hostsOf,
  removeSecret,
  SecretError,
  secretHost,
  secretName,
  storeSecret,
  toSecret,
} from '../../services/secrets/secret-files.ts';
import { hostOf } from '../../services/secrets/secrets.ts';
import { assertKnownState } from '../../store/state-schema.ts';
import { type CliCaller, userDirsOf } from '../connect.ts';
import {
  EXIT,
  harmless,
  type JsonFlag,
  OperatorError,
  print,
  printJson,
  printRows,
  say,
  UsageError,
} from '../output.ts';

/** Length below which a secret could not be told from other text in an answer. */
const CHARS_MIN = 8;

/** Stores what standard input holds, or what a person types without it being shown. Returns the exit code. */
export async function secretSet(
  name: string,
  { json, host }: JsonFlag & { readonly host?: readonly string[] },
  { flags, env }: CliCaller,
): Promise<number> {
  assertName(name);
  const hosts = host?.map(toHost);
  const { stateDir } = userDirsOf(flags, env);
  const value = toSecret(process.stdin.isTTY ? await askHidden(name) : await readInput());
  assertKnownState(stateDir);
  makeStateDir(stateDir);
  storeSecret(stateDir, { name, value }, limits);
  if (hosts) bindSecret(stateDir, name, hosts);
  if (value.length < CHARS_MIN)
    say(`${name} has fewer than ${CHARS_MIN} characters: it is easy to guess, and can't be hidden in answers`);
  const bound = hostsOf(stateDir, name);
  if (json) printJson({ name, place: 'state', hosts: bound ?? null });
  else print(`stored ${name}; ${boundTo(bound)}`);
  return EXIT.OK;
}

/** Lists names, places and hosts; never a value. Returns the exit code. */
export function secretList({ json }: JsonFlag, { flags, env }: CliCaller): number {
  const { stateDir, configFile } = userDirsOf(flags, env);
  const commands = Object.keys(readConfigFile(configFile).secrets ?? {});
  const rows = shownSecrets(stateDir, commands);
  const none = 'no secrets are stored; store one with: ringfence secret set NAME';
  return printRows(rows, json, none, ({ name, place, hosts }) => `${name}  ${place}  ${boundTo(hosts ?? undefined)}`);
}

export function secretRemove(name: string, { json }: JsonFlag, { flags, env }: CliCaller): number {
  assertName(name);
  const { stateDir } = userDirsOf(flags, env);
  assertKnownState(stateDir);
  if (!removeSecret(stateDir, name)) throw new OperatorError(`no secret named ${name} is stored`);
  if (json) printJson({ removed: name });
  return EXIT.OK;
}

const boundTo = (hosts: readonly string[] | undefined): string =>
  hosts === undefined ? 'bound to no host yet' : `sent to ${hosts.join(', ')} only`;

/** Does not repeat a wrong name: somebody may have typed the secret there. */
function assertName(name: string): void {
  if (!secretName.safeParse(name).success)
    throw new UsageError('the name of a secret takes up to 64 lower-case letters, digits, - and _, a letter first');
}

/** `host:port` of a host, with the port of https if it has none. Throws UsageError. */
function toHost(text: string): string {
  const url = URL.parse(`https://${text}`);
  const host = url && url.pathname === '/' && url.search === '' ? hostOf(url) : '';
  if (secretHost.safeParse(host).success) return host;
  throw new UsageError(`--host takes HOST or HOST:PORT, not ${harmless(text)}`);
}

async function readInput(): Promise<string> {
  const bytes = await readUpTo(process.stdin, limits.secretBytesMax);
  if (bytes) return bytes.toString('utf8');
  throw new SecretError(`standard input has more than ${limits.secretBytesMax} bytes, the most that a secret may have`);
}

async function askHidden(name: string): Promise<string> {
  const nowhere = new Writable({ write: (_piece, _encoding, done) => done() });
  const reader = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  process.stderr.write(`${name} (not shown): `);
  try {
    return await reader.question('');
  } finally {
    reader.close();
    process.stderr.write('\n');
  }
}
