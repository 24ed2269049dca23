/** Opens DuckDB so that SQL reaches nothing but the file or the folder that the host checked, and changes no setting. */
import { statSync } from 'node:fs';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { assertOpened, openFiles } from '../sqlite/opening.ts';
import { Refused } from '../sqlite/refusals.ts';
import type { DuckDbBounds, DuckDbSource } from './messages.ts';
import { asRefused } from './refusals.ts';

export class OpenSource implements Disposable {
  readonly connection: DuckDBConnection;
  readonly #instance: DuckDBInstance;

  constructor(instance: DuckDBInstance, connection: DuckDBConnection) {
    this.#instance = instance;
    this.connection = connection;
  }

  [Symbol.dispose](): void {
    this.connection.closeSync();
    this.#instance.closeSync();
  }
}

/** Opens a source for one statement. Throws Refused. */
export async function openSource(source: DuckDbSource, bounds: DuckDbBounds): Promise<OpenSource> {
  if (source.kind === 'folder') enter(source);
  const instance = await openInstance(source, bounds);
  const open = new OpenSource(instance, await instance.connect());
  try {
    for (const it of settingsOf(source)) await open.connection.run(`SET ${it}`);
    return open;
  } catch (error) {
    open[Symbol.dispose]();
    throw error;
  }
}

/** Makes the folder the one that relative names of files begin in. Throws CONFLICT if it is another one by now. */
function enter({ at }: DuckDbSource): void {
  try {
    process.chdir(at.path);
    const { dev, ino } = statSync('.', { bigint: true });
    if (String(dev) === at.device && String(ino) === at.inode && process.cwd() === at.path) return;
  } catch {
    // ENOENT, ENOTDIR, EACCES: moved or hidden meanwhile.
  }
  throw new Refused('CONFLICT', 'the folder was replaced while it was opened', 'Call again.');
}

async function openInstance({ kind, at }: DuckDbSource, bounds: DuckDbBounds): Promise<DuckDBInstance> {
  const config = {
    threads: String(bounds.threads),
    memory_limit: `${bounds.memoryBytes}B`,
    // What does not fit into the memory is refused, and not written to files.
    temp_directory: '',
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    allow_community_extensions: 'false',
  };
  if (kind === 'folder') return await DuckDBInstance.create(':memory:', config);
  const before = openFiles();
  let instance: DuckDBInstance;
  try {
    instance = await DuckDBInstance.create(at.path, { ...config, access_mode: 'READ_ONLY' });
  } catch (error) {
    throw asRefused(error, 'open');
  }
  try {
    // DuckDB opens the file by its name; what it opened is compared before a statement runs.
    assertOpened(at, before);
    return instance;
  } catch (error) {
    instance.closeSync();
    throw error;
  }
}

/** Settings that only a running database takes. The last one ends all changes of settings. */
function settingsOf({ kind, at, only }: DuckDbSource): string[] {
  const reach = only ? `allowed_paths=${listOf(only)}` : `allowed_directories=${listOf([`${at.path}/`])}`;
  return [...(kind === 'folder' ? [reach] : []), 'enable_external_access=false', 'lock_configuration=true'];
}

const listOf = (paths: readonly string[]): string => `[${paths.map(quoted).join()}]`;

/** A text as SQL has it. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;
