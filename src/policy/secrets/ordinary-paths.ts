/**
 * Recognises paths whose name could be a secret's but that tell none: folders, settings of package managers without a credential, and keys
 * and certificates that the repository holds. Architecture invariant: whatever can't be read or understood counts as a secret.
 */
import { fstatSync, lstatSync, readSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { openToRead } from '../../base/disk.ts';
import type { Limits } from '../../base/limits.ts';
import { isStored } from './stored-blobs.ts';

export type SettingsBounds = Pick<Limits, 'settingsFileBytesMax' | 'settingsFilesMax'>;

/** Settings files that are secrets only if they hold a credential. Other spellings of the names stay secrets. */
const SETTINGS: ReadonlySet<string> = new Set(['.npmrc', '.pypirc']);
/** Keys and certificates, which are no secret where git holds them: `test/server.key`. */
const KEY = /(?:\.(?:pem|key|p12|pfx|jks|keystore)|^id_(?:rsa|dsa|ecdsa|ed25519))$/i;

/** Whether the content of a file with this name decides whether the file is a secret. */
export const isJudgedByContent = (name: string): boolean => SETTINGS.has(name) || KEY.test(name);

/**
 * Whether `path`, from the absolute root of a workspace, is a folder, a settings file without a credential, or a key that is in the
 * objects of a repository of this workspace. False if it is missing, can't be read, or contains a symbolic link: rules judge the target of
 * a link by its own name.
 */
export function isOrdinary(root: string, path: string, bounds: SettingsBounds): boolean {
  try {
    const file = join(root, path);
    if (realpathSync.native(file) !== file) return false;
    const stat = lstatSync(file, { bigint: true });
    if (stat.isDirectory()) return true;
    const name = basename(file);
    if (SETTINGS.has(name)) return !holdsCredential(textOf(readBytes(file, bounds.settingsFileBytesMax)));
    if (!KEY.test(name)) return false;
    // No program can set the time of the last change of an inode.
    return isRemembered(`${root}\0${file}\0${stat.ino} ${stat.size} ${stat.ctimeNs}`, () => {
      const bytes = readBytes(file, bounds.settingsFileBytesMax);
      return isKeyMaterial(bytes) && isStored(file, bytes, root);
    });
  } catch {
    // ENOENT, EACCES, ELOOP and similar: nothing is known about the path.
    return false;
  }
}

/**
 * `isOrdinary` for the paths of one question, each of which is looked at once, so that a repeated answer is the same. Paths out of the root
 * are not ordinary, nor are files beyond `settingsFilesMax`: an agent may have made any number, and looking holds up the gateway.
 */
export function ordinaryPathsIn(root: string, bounds: SettingsBounds): (path: string) => boolean {
  const found = new Map<string, boolean>();
  let left = bounds.settingsFilesMax;
  return (path) => {
    const known = found.get(path);
    if (known !== undefined) return known;
    const mayLook = !isJudgedByContent(basename(path)) || left-- > 0;
    const answer = mayLook && !path.startsWith('/') && isOrdinary(root, path, bounds);
    found.set(path, answer);
    return answer;
  };
}

/** Keys that git holds; those that it does not may be committed later. */
const held = new Set<string>();
const HELD_MAX = 4096;

function isRemembered(key: string, look: () => boolean): boolean {
  if (held.has(key)) return true;
  if (!look()) return false;
  if (held.size >= HELD_MAX) held.clear();
  held.add(key);
  return true;
}

const KEY_BYTES_MIN = 128;
/** How PEM, a Java keystore, and DER (PKCS#12 too) begin. */
const BEGINNINGS = ['2d2d2d2d2d424547494e20', 'feedfeed', '3082'].map((it) => Buffer.from(it, 'hex'));

/** Nobody can guess a key, and thereby put its bytes into the objects; a password that is called `x.key` can be guessed. */
const isKeyMaterial = (bytes: Buffer): boolean =>
  bytes.length >= KEY_BYTES_MIN && BEGINNINGS.some((it) => bytes.subarray(0, it.length).equals(it));

const textOf = (bytes: Buffer): string => new TextDecoder('utf-8', { fatal: true }).decode(bytes);

/** The text of a file. Throws for file system errors, for anything but a regular file, for files that are too large or not UTF-8. */
export const readText = (path: string, bytesMax: number): string => textOf(readBytes(path, bytesMax));

/** The bytes of a file. Throws for file system errors, for anything but a regular file, for files that are too large. */
function readBytes(path: string, bytesMax: number): Buffer {
  using opened = openToRead(path);
  if (!fstatSync(opened.fd).isFile()) throw new Error('it is not a file');
  const bytes = Buffer.alloc(bytesMax + 1);
  let length = 0;
  for (let read = -1; read !== 0 && length < bytes.length; length += read)
    read = readSync(opened.fd, bytes, length, bytes.length - length, null);
  if (length > bytesMax) throw new Error('it is too large');
  return bytes.subarray(0, length);
}

/** Words in the names of settings that hold credentials. */
const TELLING = /auth|token|passw|secret|credential|login|user|key|cert|otp|bearer|basic/i;
/** `always-auth=true`, or a value taken from the environment. */
const HARMLESS_VALUE = /^[^=]*=\s*(true|false|"?\$\{\w+\}"?)\s*$/;
/** A line that names the file of an authority's certificates. */
const AUTHORITIES = /^\s*(?:cafile|cert|ca_certificate|sslcainfo)\s*=\s*"?\/[\w./-]+\.(?:crt|pem|cer)"?\s*$/i;
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
        (TELLING.test(line) && !HARMLESS_VALUE.test(line) && !AUTHORITIES.test(line)) ||
        (line.match(LONG_RUN) ?? []).some((it) => !WORDS.test(it)),
    );
}
