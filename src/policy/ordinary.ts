/**
 * Paths whose name may be a secret's and that hold none: folders, and settings of package managers without a credential.
 * Architecture invariant: whatever can't be looked at, or can't be understood, counts as a secret.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { defaultLimits as limits } from '../limits.ts';

/** Names of files that are secrets only where they hold a credential. Other spellings of them stay secrets. */
const SETTINGS: ReadonlySet<string> = new Set(['.npmrc', '.pypirc']);

/** Whether what a file of that name holds decides whether it is a secret. */
export const isSettingsName = (name: string): boolean => SETTINGS.has(name);

/**
 * Whether the absolute `path` is a folder, or a settings file that holds no credential. False where it is missing, can't be
 * read, or a link stands anywhere in it: rules judge what a link leads to by its own name.
 */
export function isOrdinary(path: string): boolean {
  try {
    if (realpathSync(path) !== path) return false;
    if (lstatSync(path).isDirectory()) return true;
    return isSettingsName(basename(path)) && !holdsCredential(readSettings(path));
  } catch {
    // ENOENT, EACCES, ELOOP and their like: nothing is known of it.
    return false;
  }
}

/** Throws what the file system says, and for what is no small file of text. */
function readSettings(path: string): string {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    if (!fstatSync(fd).isFile()) throw new Error('it is no file');
    const bytes = Buffer.alloc(limits.settingsFileBytesMax + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(fd, bytes, length, bytes.length - length, null);
    if (length > limits.settingsFileBytesMax) throw new Error('it is too large');
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length));
  } finally {
    closeSync(fd);
  }
}

/** Words of the names that credentials are set by. */
const TELLING = /auth|token|passw|secret|credential|login|user|key|cert|otp|bearer|basic/i;
/** `always-auth=true`, and what takes its value from the environment. */
const HARMLESS_VALUE = /^[^=]*=\s*(true|false|"?\$\{\w+\}"?)\s*$/;
/** A name before the host of an address. */
const USER_IN_ADDRESS = /:\/\/[^/]*@/;
/** Long runs that are no words: tokens stand in addresses, too. */
const LONG_RUN = /[A-Za-z0-9_+%-]{16,}/g;
const WORDS = /^([a-z]+|[A-Z]+)([-_]([a-z]+|[A-Z]+))*$/;
/** What no settings file has, and another encoding, or an escape that hides a name, does. */
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
