/** `ringfence database add|list|check|remove`: works on the state directory; a running daemon notices changes at once. */
import { resolve } from 'node:path';
import type * as z from 'zod';
import { defaultLimits as limits } from '../../base/limits.ts';
import type { Client } from '../../client/client.ts';
import { readConfigFile } from '../../daemon/config.ts';
import { makeStateDir, type UserDirs } from '../../daemon/user-dirs.ts';
import {
  DatabaseError,
  readDatabase,
  removeDatabase,
  storeDatabase,
  storedDatabases,
} from '../../services/databases/database-files.ts';
import { databaseName, databaseSchema, toSource } from '../../services/databases/settings.ts';
import { assertKnownState } from '../../store/state-schema.ts';
import { type DatabaseSource, isServer } from '../../tools/context/databases.ts';
import { type CliCaller, connect, userDirsOf } from '../connect.ts';
import {
  EXIT,
  exitCodeOf,
  harmless,
  type JsonFlag,
  OperatorError,
  print,
  printJson,
  say,
  UsageError,
} from '../output.ts';
import { showRows } from './query.ts';

export interface DatabaseAddFlags extends JsonFlag {
  readonly kind: string;
  readonly path?: string;
  readonly host?: string;
  readonly port?: string;
  readonly database?: string;
  readonly user?: string;
  readonly secret?: string;
  readonly tls?: string;
  readonly private?: boolean;
  readonly ca?: string;
  readonly access?: string;
  readonly maxCost?: string;
}

type ListedDatabase = {
  readonly name: string;
  /** `config` for one of config.yaml, `state` for a stored one. */
  readonly place: 'config' | 'state';
} & (DatabaseSource | { readonly problem: string });

/** Stores a connection. Returns the exit code. */
export function databaseAdd(name: string, addFlags: DatabaseAddFlags, { flags, env }: CliCaller): number {
  const { json } = addFlags;
  const parsed = databaseSchema.safeParse(settingsOf(addFlags));
  const problem = databaseName.safeParse(name).error ?? parsed.error;
  if (problem) throw new UsageError(harmless(problemOf(problem)));
  const { stateDir, configFile } = userDirsOf(flags, env);
  if (Object.hasOwn(readConfigFile(configFile).databases ?? {}, name))
    throw new UsageError(`${configFile} has a connection ${name} already; change it there`);
  const source = toSource(parsed.data as z.output<typeof databaseSchema>);
  assertKnownState(stateDir);
  makeStateDir(stateDir);
  storeDatabase(stateDir, { name, source }, limits);
  if (json) printJson({ name, ...source });
  else
    print(
      harmless(`stored ${describe({ name, place: 'state', ...source })}; try it: ringfence database check ${name}`),
    );
  return EXIT.OK;
}

/** All connections, by name. */
export function connectionsOf({ stateDir, configFile }: Pick<UserDirs, 'stateDir' | 'configFile'>): ListedDatabase[] {
  const configured = Object.entries(readConfigFile(configFile).databases ?? {}).map(
    ([name, it]): ListedDatabase => ({ name, place: 'config', ...toSource(it) }),
  );
  const stored = storedDatabases(stateDir).filter((name) => !configured.some((it) => it.name === name));
  return [...configured, ...stored.map((name) => listed(stateDir, name))].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Lists all connections. Returns the exit code: 1 if one can't be used. */
export function databaseList({ json }: JsonFlag, { flags, env }: CliCaller): number {
  const dirs = userDirsOf(flags, env);
  assertKnownState(dirs.stateDir);
  const rows = connectionsOf(dirs);
  if (json) printJson(rows);
  else if (rows.length === 0)
    say('no database connections; add one with: ringfence database add NAME --kind sqlite|duckdb|postgres|mysql …');
  else for (const it of rows) print(harmless(describe(it)));
  return rows.some((it) => 'problem' in it) ? EXIT.FAILED : EXIT.OK;
}

/** Asks the daemon for the tables of a connection. Returns the exit code. */
export async function databaseCheck(name: string, { json }: JsonFlag, caller: CliCaller): Promise<number> {
  await using client: Client = await connect(caller);
  const result = await client.call('database_schema' as string, { connection: name });
  if (json) printJson(result);
  else showRows(result, false);
  return exitCodeOf(result);
}

/** Removes a stored connection. Returns the exit code. */
export function databaseRemove(name: string, { json }: JsonFlag, { flags, env }: CliCaller): number {
  const { stateDir, configFile } = userDirsOf(flags, env);
  assertKnownState(stateDir);
  if (databaseName.safeParse(name).success && removeDatabase(stateDir, name)) {
    if (json) printJson({ removed: name });
    return EXIT.OK;
  }
  const isConfigured = Object.hasOwn(readConfigFile(configFile).databases ?? {}, name);
  throw new OperatorError(
    isConfigured
      ? `${name} stands in ${configFile}; remove it there`
      : `no connection named ${harmless(name)} is stored`,
  );
}

function listed(stateDir: string, name: string): ListedDatabase {
  try {
    const source = readDatabase(stateDir, name, limits);
    return { name, place: 'state', ...(source ?? { problem: 'it was removed meanwhile' }) };
  } catch (error) {
    if (error instanceof DatabaseError) return { name, place: 'state', problem: error.message };
    throw error;
  }
}

/** The flags as config.yaml would have them. */
function settingsOf({ json: _, port, maxCost, ca, ...flags }: DatabaseAddFlags): Record<string, unknown> {
  const { kind, path, host, database, user, secret, tls, private: isPrivate, access } = flags;
  const settings = {
    kind,
    path,
    host,
    database,
    user,
    secret,
    tls,
    private: isPrivate,
    access,
    port: port === undefined ? undefined : Number(port),
    maxCost: maxCost === undefined ? undefined : Number(maxCost),
    ca: ca === undefined ? undefined : resolve(ca),
  };
  return Object.fromEntries(Object.entries(settings).filter(([, it]) => it !== undefined));
}

function describe(listed: ListedDatabase): string {
  if ('problem' in listed) return `${listed.name}  off: ${listed.problem}`;
  const { name, kind, access, place } = listed;
  if (!isServer(listed)) return `${name}  ${kind}  ${listed.path}  ${access}  (${place})`;
  const { user, host, port, database, secret, tls } = listed;
  const password = secret === undefined ? 'no password' : `secret ${secret}`;
  return `${name}  ${kind}  ${user}@${host}:${port}/${database}  tls ${tls}  ${password}  ${access}  (${place})`;
}

const problemOf = ({ issues }: z.ZodError): string =>
  issues
    .map(({ path, message }) => (path.length > 0 ? `--${path.join('.')} ${message}` : `the name ${message}`))
    .join('; ');
