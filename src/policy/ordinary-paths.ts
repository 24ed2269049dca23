/**
 * Recognises paths whose name could be a secret's but that hold no secret: folders, and settings of package managers without a credential.
 * Architecture invariant: whatever can't be read or understood counts as a secret.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import type { Limits } from '../limits.ts';

export type SettingsBounds = Pick<Limits, 'settingsFileBytesMax'>;

/** Settings files that are secrets only if they hold a credential. Other spellings of the names stay secrets. */
const SETTINGS: ReadonlySet<string> = new Set(['.npmrc', '.pypirc']);

/** Whether the content of a file with this name decides whether the file is a secret. */
export const isSettingsName = (name: string): boolean => SETTINGS.has(name);

/**
 * Whether the absolute `path` is a folder, or a settings file without a credential. False if it is missing, can't be read, or contains a
 * symbolic link: rules judge the target of a link by its own name.
 */
export function isOrdinary(path: string, bounds: SettingsBounds): boolean {
  try {
    if (realpathSync(path) !== path) return false;
    if (lstatSync(path).isDirectory()) return true;
    return isSettingsName(basename(path)) && !holdsCredential(readSettings(path, bounds));
  } catch {
    // ENOENT, EACCES, ELOOP and similar: nothing is known about the path.
    return false;
  }
}

/**
 * The text of a settings file. Throws for file system errors, for anything but a regular file, for files that are too large or not UTF-8.
 */
function readSettings(path: string, { settingsFileBytesMax }: SettingsBounds): string {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    if (!fstatSync(fd).isFile()) throw new Error('it is not a file');
    const bytes = Buffer.alloc(settingsFileBytesMax + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(fd, bytes, length, bytes.length - length, null);
    if (length > settingsFileBytesMax) throw new Error('it is too large');
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length));
  } finally {
    closeSync(fd);
  }
}

/** Words in the names of settings that hold credentials. */
const TELLING = /auth|token|passw|secret|credential|login|user|key|cert|otp|bearer|basic/i;
/** `always-auth=true`, or a value taken from the environment. */
const HARMLESS_VALUE = /^[^=]*=\s*(true|false|"?\$\{\w+\}"?)\s*$/;
/** A user name before the host of a URL. */
const USER_IN_ADDRESS = /:\/\/[^/]*@/;
/** Long runs of characters that are not words: tokens can be part of URLs. */
const LONG_RUN = /[A-Za-z0-9_+%-]{16,}/g;
const WORDS = /^([a-z]+|[A-Z]+)([-_]([a-z]+|[A-Z]+))*$/;
/** Characters of other encodings, and backslashes, which could hide a name; no settings file needs them. */
const ODD = /[^\t\n\r\x20-\x7e]|\\/;

/** Whether the text of a settings file may hold a credential; when in doubt, it may. */
export function holdsCredential(text: string): boolean {
  return text
    .split(/\r\n|\r|\n/)
    .some(
      (line) =>
        ODD.test(line) ||
        USER_IN_ADDRESS.test(line) ||
        (TELLING.test(line) && !HARMLESS_VALUE.test(line)) ||
        (line.match(LONG_RUN) ?? []).some((it) => !WORDS.test(it)),
    );
}
