/** `ringfence connector check|add|list|remove`: works on the state directory without a daemon; a running daemon notices changes at once. */
import { resolve } from 'node:path';
import { defaultLimits as limits } from '../../base/limits.ts';
import { makeStateDir } from '../../daemon/user-dirs.ts';
import { FileRefusal, readTrusted } from '../../policy/file.ts';
import { readCertificates } from '../../services/certificates.ts';
import {
  CA,
  CHOICES,
  type Choices,
  type Connector,
  FILE,
  secretsOf,
  secretUrlsOf,
  toConnector,
} from '../../services/connectors/connector.ts';
import { pinnedConnectors, readPinned } from '../../services/connectors/pinned-connectors.ts';
import { presetNames, presetText } from '../../services/connectors/presets.ts';
import { toToolset } from '../../services/connectors/toolset.ts';
import { PinError } from '../../services/pinned/pin-error.ts';
import type { PinFolder } from '../../services/pinned/pin-folder.ts';
import { bindSecret, hostsOf, isStored } from '../../services/secrets/secret-files.ts';
import { hostOf } from '../../services/secrets/secrets.ts';
import { assertKnownState } from '../../store/state-schema.ts';
import { builtinToolset } from '../../tools/registry.ts';
import { runsBy } from '../../tools/runs.ts';
import { type CliCaller, userDirsOf } from '../connect.ts';
import { EXIT, harmless, print, printJson } from '../output.ts';
import { assertHash, listPins, removePin } from '../state/pins.ts';

export interface ConnectorFlags {
  readonly json?: boolean;
  /** URL of the service, in place of that in the file. */
  readonly base?: string;
  /** File with certificates of authorities. */
  readonly ca?: string;
  readonly private?: boolean;
  /** Whether keys of real accounts are used. */
  readonly live?: boolean;
  readonly sha256?: string;
}

/** Checks whether a file or preset is a valid connector, and shows what it reaches. Returns the exit code. */
export function connectorCheck(target: string, flags: ConnectorFlags, { cwd }: CliCaller): number {
  const connector = readTarget(target, flags, cwd);
  if (flags.json) printJson(toShown(connector));
  else show(connector);
  return EXIT.OK;
}

/** Copies a connector into the state directory, replacing one with the same name, and binds its secrets. Returns the exit code. */
export function connectorAdd(
  target: string,
  flags: ConnectorFlags,
  { nowMs, ...caller }: CliCaller & { nowMs: number },
): number {
  const { stateDir } = userDirsOf(caller.flags, caller.env);
  const connector = readTarget(target, flags, caller.cwd);
  const { name, sha256, files } = connector;
  assertHash(target, sha256, flags.sha256);
  const taken = [...toToolset(connector, { assertConfigured() {} }).keys()].find((it) => builtinToolset().has(it));
  if (taken !== undefined) throw new PinError([`the tool name ${taken} is taken by a built-in tool`]);
  assertKnownState(stateDir);
  makeStateDir(stateDir);
  const unbound = unboundSecrets(connector, stateDir);
  pinnedConnectors(stateDir, limits).add(name, files, nowMs);
  for (const [secret, hosts] of unbound) bindSecret(stateDir, secret, hosts);
  if (flags.json) printJson(toShown(connector));
  else {
    show(connector);
    tellSecrets(connector, stateDir);
  }
  return EXIT.OK;
}

/** Lists the pinned connectors. Returns the exit code: 1 if one of them is refused. */
export function connectorList({ json }: ConnectorFlags, { flags, env }: CliCaller): number {
  const pins = knownPins({ flags, env });
  return listPins(pins, json, {
    read: (name) => toShown(readPinned(pins, name, limits)),
    heading: ({ name, base }) => `${name}  ${base}`,
    none: `no connectors were added; add one with: ringfence connector add ${presetNames().join('|')}|FILE`,
  });
}

export function connectorRemove(name: string, { json }: ConnectorFlags, { flags, env }: CliCaller): number {
  return removePin(knownPins({ flags, env }), 'connector', name, json);
}

/** The pinned connectors of the caller's state directory. Throws SchemaError if a newer version has written it. */
function knownPins({ flags, env }: Pick<CliCaller, 'flags' | 'env'>): PinFolder {
  const { stateDir } = userDirsOf(flags, env);
  assertKnownState(stateDir);
  return pinnedConnectors(stateDir, limits);
}

/** Reads a preset or a file. Throws PinError. */
function readTarget(target: string, flags: ConnectorFlags, cwd: string): Connector {
  const text = presetText(target, limits) ?? readFile(resolve(cwd, target), target);
  const choices: Choices = {
    ...(flags.base !== undefined && { base: toBase(flags.base) }),
    ...(flags.private !== undefined && { private: flags.private }),
    ...(flags.live !== undefined && { live: flags.live }),
  };
  const files = {
    [FILE]: text,
    ...(Object.keys(choices).length > 0 && { [CHOICES]: JSON.stringify(choices) }),
    ...(flags.ca !== undefined && { [CA]: readCertificates(resolve(cwd, flags.ca), noCertificates) }),
  };
  return toConnector(files, limits, target);
}

function readFile(path: string, target: string): string {
  try {
    return readTrusted(path, limits.connectorFileBytesMax);
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    const hint = error.cause === 'ENOENT' ? `; the presets are: ${presetNames().join(', ')}` : '';
    throw new PinError([`${target}: ${error.message}${hint}`]);
  }
}

/** Throws PinError for what secrets must not be sent to. */
function toBase(text: string): string {
  const url = URL.parse(text);
  const isLocal = url?.protocol === 'http:' && url.hostname === '127.0.0.1';
  if (url && (url.protocol === 'https:' || isLocal) && !/[?#]/.test(text) && url.username === '') return text;
  throw new PinError([`--base takes an https URL without query, or http://127.0.0.1, not ${text}`]);
}

const noCertificates = ({ message }: Error): PinError =>
  new PinError([`--ca takes a file with certificates in PEM: ${message}`]);

/** The secrets that no host was named for yet, with the hosts of the connector. Throws PinError if one is bound elsewhere. */
function unboundSecrets(connector: Connector, stateDir: string): [string, readonly string[]][] {
  const hosts = [...new Set(secretUrlsOf(connector).map((it) => hostOf(new URL(it))))];
  return secretsOf(connector).flatMap(({ name }): [string, readonly string[]][] => {
    const bound = hostsOf(stateDir, name);
    const missing = hosts.find((it) => bound !== undefined && !bound.includes(it));
    if (missing === undefined) return bound === undefined ? [[name, hosts]] : [];
    const all = [...new Set([...(bound as readonly string[]), ...hosts])].map((it) => ` --host ${it}`).join('');
    throw new PinError([
      `the secret ${name} is sent to ${bound?.join(', ')} only, and this connector would send it to ${missing}; if you want that: ringfence secret set ${name}${all}`,
    ]);
  });
}

function tellSecrets(connector: Connector, stateDir: string): void {
  const needed = new Map(secretsOf(connector).map((it) => [it.name, it.setup]));
  for (const [name, setup] of needed) {
    const place = isStored(stateDir, name) ? 'is stored' : `set it: ringfence secret set ${name}`;
    print(
      `secret ${name} goes to ${hostsOf(stateDir, name)?.join(', ')} only; ${place}${setup === undefined ? '' : ` (${setup})`}`,
    );
  }
}

function toShown(connector: Connector) {
  const { name, base, sha256 } = connector;
  const tools = [...new Set([...toToolset(connector, { assertConfigured() {} }).values()].map((it) => it.tool))];
  const rows = tools.map((tool) => {
    const { method, path } =
      connector.operations[runsBy(tool, 'connectors')?.operation.operation as string]?.request ?? {};
    const aliases = tool.aliases.map((it) => it.name);
    return {
      name: tool.name,
      method,
      path,
      asks: tool.asks === true,
      costs: tool.estimateCostUsd !== undefined,
      aliases,
    };
  });
  return { name, base, sha256, secrets: secretsOf(connector).map((it) => it.name), tools: rows };
}

function show(connector: Connector): void {
  const { base, sha256, tools } = toShown(connector);
  print(harmless(`${connector.name}: ${connector.title}, at ${base}`));
  print(`sha256:${sha256}`);
  for (const { name, method, path, asks, costs } of tools)
    print(harmless(`${name}  ${method} ${path}${asks ? '  asks each time' : ''}${costs ? '  costs money' : ''}`));
}
