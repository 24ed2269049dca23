/** The connections that `ringfence database add` stored: a file each in the state directory, outside of every workspace. */

import { chmodSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { replaceFile } from '../../base/disk.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { jsonOr } from '../../base/text/json.ts';
import { FileRefusal, readTrusted } from '../../policy/file.ts';
import type { DatabaseSource } from '../../tools/context/databases.ts';
import { databaseName, databaseSchema, toSource } from './settings.ts';

/** A connection can't be stored or read. */
export class DatabaseError extends OperatorError {}

const folderOf = (stateDir: string): string => join(stateDir, 'databases');
const fileOf = (stateDir: string, name: string): string => join(folderOf(stateDir), `${name}.json`);

/** Names of the stored connections in order. */
export function storedDatabases(stateDir: string): string[] {
  const folder = folderOf(stateDir);
  const files = existsSync(folder) ? readdirSync(folder) : [];
  return files
    .flatMap((it) => (it.endsWith('.json') ? [it.slice(0, -'.json'.length)] : []))
    .filter((it) => databaseName.safeParse(it).success)
    .sort();
}

/** A stored connection; undefined if there is none of that name. Throws DatabaseError for a file that can't be trusted. */
export function readDatabase(stateDir: string, name: string, limits: Limits): DatabaseSource | undefined {
  const path = fileOf(stateDir, name);
  if (!databaseName.safeParse(name).success || !existsSync(path)) return undefined;
  let text: string;
  try {
    text = readTrusted(path, limits.databaseFileBytesMax);
  } catch (error) {
    if (error instanceof FileRefusal) throw new DatabaseError(error.message);
    throw error;
  }
  const parsed = databaseSchema.safeParse(jsonOr(text, undefined));
  if (!parsed.success) throw new DatabaseError(`${path}: ${z.prettifyError(parsed.error)}`);
  return toSource(parsed.data);
}

/** Stores a connection in one step, replacing the one with the same name. Throws DatabaseError. */
export function storeDatabase(
  stateDir: string,
  { name, source }: { readonly name: string; readonly source: DatabaseSource },
  { databasesMax }: Limits,
): void {
  if (storedDatabases(stateDir).filter((it) => it !== name).length >= databasesMax)
    throw new DatabaseError(`${databasesMax} connections are stored, which is the maximum (databasesMax)`);
  replaceFile(fileOf(stateDir, name), JSON.stringify(source));
  chmodSync(folderOf(stateDir), 0o700);
}

/** Removes a stored connection; false if there was none. */
export function removeDatabase(stateDir: string, name: string): boolean {
  const path = fileOf(stateDir, name);
  if (!existsSync(path)) return false;
  rmSync(path);
  return true;
}
