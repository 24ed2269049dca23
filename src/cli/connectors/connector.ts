/** `ringfence connector check|add|list|remove`: works on the state directory without a daemon; a running daemon notices changes at once. */

import { resolve } from 'node:path';
import { defaultLimits as limits } from '../../base/limits.ts';
import { makeStateDir } from '../../daemon/user-dirs.ts';
import { FileRefusal, readTrusted } from '../../policy/file.ts';
import { readCertificates } from '../../services/connectors/certificates.ts';
import {
  CA,
  CHOICES,
  type Choices,
  type Connector,
  ConnectorError,
  FILE,
  secretsOf,
  secretUrlsOf,
  toConnector,
} from '../../services/connectors/connector.ts';
import { pinnedConnectors, readPinned } from '../../services/connectors/pinned-connectors.ts';
import { presetNames, presetText } from '../../services/connectors/presets.ts';
import { toToolset } from '../../services/connectors/toolset.ts';
import type { PinFolder } from '../../services/plugins/pin-folder.ts';
import { bindSecret, hostsOf, isStored } from '../../services/secrets/secret-files.ts';
import { hostOf } from '../../services/secrets/secrets.ts';
import { builtinToolset } from '../../tools/registry.ts';
import { runsBy } from '../../tools/runs.ts';
import { type CliCaller, userDirsOf } from '../connect.ts';
import { CliError, EXIT, harmless, print, printJson, say } from '../output.ts';
import { assertKnownState } from '../state/known-state.ts';

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
  return orRefused(() => {
    const connector = readTarget(target, flags, cwd);
    if (flags.json) printJson(toShown(connector));
    else show(connector);
    return EXIT.OK;
  });
}

/** Copies a connector into the state directory, replacing one with the same name, and binds its secrets. Returns the exit code. */
export function connectorAdd(
  target: string,
  flags: ConnectorFlags,
  { nowMs, ...caller }: CliCaller & { nowMs: number },
): number {
  return orRefused(() => {
    const { stateDir } = userDirsOf(caller.flags, caller.env);
    const connector = readTarget(target, flags, caller.cwd);
    const { name, sha256, files } = connector;
    if (flags.sha256 !== undefined && flags.sha256.replace(/^sha256:/, '') !== sha256)
      throw new ConnectorError([
        `${target} has sha256:${sha256}, not the hash given as --sha256; check it before you add it`,
      ]);
    const taken = [...toToolset(connector, { assertConfigured() {} }).keys()].find((it) => builtinToolset().has(it));
    if (taken !== undefined) throw new ConnectorError([`the tool name ${taken} is taken by a built-in tool`]);
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
  });
}

/** Lists the pinned connectors. Returns the exit code: 1 if one of them is refused. */
export function connectorList({ json }: ConnectorFlags, { flags, env }: CliCaller): number {
  const pins = knownPins({ flags, env });
  const rows = pins.names().map((name) => {
    try {
      return toShown(readPinned(pins, name, limits));
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error;
      return { name, problem: error.message };
    }
  });
  if (json) printJson(rows);
  else if (rows.length === 0)
    say(`no connectors were added; add one with: ringfence connector add ${presetNames().join('|')}|FILE`);
  else
    for (const row of rows)
      if ('problem' in row) print(harmless(`${row.name}  off: ${row.problem}`));
      else
        print(
          harmless(
            `${row.name}  ${row.base}  sha256:${row.sha256.slice(0, 12)}  ${row.tools.map((it) => it.name).join(', ')}`,
          ),
        );
  return rows.some((it) => 'problem' in it) ? EXIT.FAILED : EXIT.OK;
}

export function connectorRemove(name: string, { json }: ConnectorFlags, { flags, env }: CliCaller): number {
  const pins = knownPins({ flags, env });
  if (pins.remove(name)) {
    if (json) printJson({ removed: name });
    return EXIT.OK;
  }
  const names = pins.names();
  throw new CliError(
    EXIT.FAILED,
    `no connector is named ${harmless(name)}${names.length > 0 ? `; the connectors are: ${names.join(', ')}` : ''}`,
  );
}

/** The pinned connectors of the caller's state directory. Throws CliError if a newer version has written it. */
function knownPins({ flags, env }: Pick<CliCaller, 'flags' | 'env'>): PinFolder {
  const { stateDir } = userDirsOf(flags, env);
  assertKnownState(stateDir);
  return pinnedConnectors(stateDir, limits);
}

/** Reads a preset or a file. Throws ConnectorError. */
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
    ...(flags.ca !== undefined && { [CA]: certificatesAt(resolve(cwd, flags.ca)) }),
  };
  return toConnector(files, limits, target);
}

function readFile(path: string, target: string): string {
  try {
    return readTrusted(path, limits.connectorFileBytesMax);
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    const hint = error.cause === 'ENOENT' ? `; the presets are: ${presetNames().join(', ')}` : '';
    throw new ConnectorError([`${target}: ${error.message}${hint}`]);
  }
}

/** Throws ConnectorError for what secrets must not be sent to. */
function toBase(text: string): string {
  const url = URL.parse(text);
  const isLocal = url?.protocol === 'http:' && url.hostname === '127.0.0.1';
  if (url && (url.protocol === 'https:' || isLocal) && !/[?#]/.test(text) && url.username === '') return text;
  throw new ConnectorError([`--base takes an https URL without query, or http://127.0.0.1, not ${text}`]);
}

function certificatesAt(path: string): string {
  try {
    return readCertificates(path, limits.connectorFileBytesMax);
  } catch (error) {
    throw new ConnectorError([`--ca takes a file with certificates in PEM: ${(error as Error).message}`]);
  }
}

/** The secrets that no host was named for yet, with the hosts of the connector. Throws ConnectorError if one is bound elsewhere. */
function unboundSecrets(connector: Connector, stateDir: string): [string, readonly string[]][] {
  const hosts = [...new Set(secretUrlsOf(connector).map((it) => hostOf(new URL(it))))];
  return secretsOf(connector).flatMap(({ name }): [string, readonly string[]][] => {
    const bound = hostsOf(stateDir, name);
    const missing = hosts.find((it) => bound !== undefined && !bound.includes(it));
    if (missing === undefined) return bound === undefined ? [[name, hosts]] : [];
    const all = [...new Set([...(bound as readonly string[]), ...hosts])].map((it) => ` --host ${it}`).join('');
    throw new ConnectorError([
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

function orRefused(action: () => number): number {
  try {
    return action();
  } catch (error) {
    if (!(error instanceof ConnectorError)) throw error;
    say(`not valid:\n${harmless(error.message)}`);
    return EXIT.USAGE;
  }
}
