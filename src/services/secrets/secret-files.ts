/**
 * The secrets of a state directory: a file each, which only its owner can read, and one file with the hosts that each
 * secret may be sent to. No sandbox and no workspace contains them.
 */

import { chmodSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { replaceFile } from '../../base/disk.ts';
import { UsageError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { FileRefusal, readTrusted } from '../../policy/file.ts';

/** A secret can't be stored or read; the message never holds the secret. */
export class SecretError extends UsageError {}

export const secretName = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,63}$/, 'takes up to 64 lower-case letters, digits, - and _, a letter first');

/** `host` or `host:port`, as `hostOf` gives it for a URL. */
export const secretHost = z
  .string()
  .max(300)
  .regex(/^[a-z0-9.[\]:_-]+:\d{1,5}$/, 'takes host:port');

const bindingsSchema = z.record(secretName, z.array(secretHost).max(16));
type Bindings = Readonly<Record<string, readonly string[]>>;

export const secretsFolder = (stateDir: string): string => join(stateDir, 'secrets');
const fileOf = (stateDir: string, name: string): string => join(secretsFolder(stateDir), `${name}.secret`);
const bindingsFile = (stateDir: string): string => join(secretsFolder(stateDir), 'hosts.json');

/** Most bytes of the file with the hosts: 256 secrets with 16 hosts each. */
const BINDINGS_BYTES_MAX = 2 * 1024 * 1024;

/** Names of the stored secrets in order. */
export function storedSecrets(stateDir: string): string[] {
  const folder = secretsFolder(stateDir);
  const files = existsSync(folder) ? readdirSync(folder) : [];
  return files.flatMap((it) => /^([a-z][a-z0-9_-]*)\.secret$/.exec(it)?.[1] ?? []).sort();
}

export const isStored = (stateDir: string, name: string): boolean => existsSync(fileOf(stateDir, name));

/** Stores a secret in one step, replacing the one with the same name. Throws SecretError. */
export function storeSecret(
  stateDir: string,
  { name, value }: { name: string; value: string },
  { secretsMax }: Limits,
): void {
  if (storedSecrets(stateDir).filter((it) => it !== name).length >= secretsMax)
    throw new SecretError(`${secretsMax} secrets are stored, which is the maximum (secretsMax)`);
  write(stateDir, fileOf(stateDir, name), value);
}

/** Removes a secret and its hosts; false if there was none. */
export function removeSecret(stateDir: string, name: string): boolean {
  const { [name]: hosts, ...others } = bindingsOf(stateDir);
  const wasStored = isStored(stateDir, name);
  rmSync(fileOf(stateDir, name), { force: true });
  if (hosts !== undefined) writeBindings(stateDir, others);
  return wasStored;
}

/** The stored secret. Throws SecretError if its file can't be trusted. */
export function readStored(stateDir: string, name: string, { secretBytesMax }: Limits): string {
  return readSecretFile(fileOf(stateDir, name), secretBytesMax);
}

/** The content of a file that holds a secret, without line ends at its end. Throws SecretError. */
export function readSecretFile(path: string, bytesMax: number): string {
  try {
    return toSecret(readTrusted(path, bytesMax));
  } catch (error) {
    if (error instanceof FileRefusal) throw new SecretError(error.message);
    throw error;
  }
}

/** The secret in a text: all of it but line ends at its end. Throws SecretError. */
export function toSecret(text: string): string {
  const value = text.replace(/[\r\n]+$/, '');
  if (value === '') throw new SecretError('the secret is empty');
  if (value.includes('\0')) throw new SecretError('the secret holds a NUL byte');
  return value;
}

/** The hosts that a secret may be sent to; undefined if none were named. */
export const hostsOf = (stateDir: string, name: string): readonly string[] | undefined => bindingsOf(stateDir)[name];

/** Sets the hosts that a secret may be sent to. */
export const bindSecret = (stateDir: string, name: string, hosts: readonly string[]): void =>
  writeBindings(stateDir, { ...bindingsOf(stateDir), [name]: hosts });

function bindingsOf(stateDir: string): Bindings {
  const path = bindingsFile(stateDir);
  if (!existsSync(path)) return {};
  const parsed = bindingsSchema.safeParse(parseJson(readTrusted(path, BINDINGS_BYTES_MAX)));
  if (!parsed.success)
    throw new SecretError(`${path}: was not written by Ringfence; remove it, and bind secrets again`);
  return parsed.data;
}

const writeBindings = (stateDir: string, bindings: Bindings): void =>
  write(stateDir, bindingsFile(stateDir), JSON.stringify(bindings));

function write(stateDir: string, path: string, text: string): void {
  replaceFile(path, text);
  chmodSync(secretsFolder(stateDir), 0o700);
}
