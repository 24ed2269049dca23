/**
 * What an operator added, as it was then: plugins and connectors. Each is copied completely into one file of the state
 * directory, which no workspace or sandbox contains, together with its hash. Later changes of the original have no effect.
 */
import { createHash } from 'node:crypto';
import { chmodSync, type FSWatcher, mkdirSync, readdirSync, rmSync, statSync, watch } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { replaceFile } from '../../base/disk.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { parseJson } from '../../base/text/json.ts';
import { FileRefusal, readTrusted } from '../../policy/file.ts';
import { PinError } from './pin-error.ts';

/** Texts by path, relative to the folder of what was added and separated by `/`. */
export type PinnedFiles = Readonly<Record<string, string>>;

const pinSchema = z.strictObject({
  version: z.literal(1),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** ISO 8601. */
  addedAt: z.string(),
  files: z.record(z.string(), z.string()),
});

/** Factor for the size of JSON: a character may be escaped as six. */
const JSON_FACTOR = 6;

/** The kind of things that a folder holds. */
export interface PinKind {
  readonly kind: 'plugin' | 'connector';
  /** Most things of the kind, and the limit that says so. */
  readonly max: { readonly count: number; readonly limit: keyof Limits };
  /** Most bytes of all files of one. */
  readonly bytesMax: number;
}

export class PinFolder {
  readonly path: string;
  readonly of: PinKind;

  constructor(stateDir: string, of: PinKind) {
    this.path = join(stateDir, `${of.kind}s`);
    this.of = of;
  }

  names(): string[] {
    return readdirSync(this.#open())
      .flatMap((it) => /^([a-z][a-z0-9_]{0,23})\.json$/.exec(it)?.[1] ?? [])
      .sort();
  }

  /** Adds files under a name in one step, replacing those that it had. Throws PinError if there are too many names. */
  add(name: string, files: PinnedFiles, nowMs: number): void {
    const { kind, max } = this.of;
    const others = this.names().filter((it) => it !== name);
    if (others.length >= max.count)
      throw new PinError([
        `${others.length} ${kind}s are added, which is the maximum (${max.limit} ${max.count}); remove one with: ringfence ${kind} remove NAME`,
      ]);
    const path = this.#fileOf(name);
    const pinned = { version: 1, sha256: hashOf(files), addedAt: new Date(nowMs).toISOString(), files };
    replaceFile(path, JSON.stringify(pinned));
  }

  /** Removes what has the name; false if there was nothing. */
  remove(name: string): boolean {
    if (!this.names().includes(name)) return false;
    rmSync(this.#fileOf(name), { force: true });
    return true;
  }

  /** The files of a name, if they are what was added. Throws PinError. */
  read(name: string): PinnedFiles {
    const path = this.#fileOf(name);
    const { kind, bytesMax } = this.of;
    let raw: unknown;
    try {
      raw = parseJson(readTrusted(path, bytesMax * JSON_FACTOR));
    } catch (error) {
      if (error instanceof FileRefusal || error instanceof SyntaxError)
        throw new PinError([`${path}: ${error.message}`]);
      throw error;
    }
    const parsed = pinSchema.safeParse(raw);
    if (!parsed.success)
      throw new PinError([
        `${path}: was not written by \`ringfence ${kind} add\`; remove it, and add the ${kind} again`,
      ]);
    const { files, sha256 } = parsed.data;
    const now = hashOf(files);
    if (now === sha256) return files;
    throw new PinError([
      `${path}: was changed since it was added: its content has sha256:${now}, not the pinned sha256:${sha256}; check it, then add it again`,
    ]);
  }

  /** Calls `onChange` soon after each change of the folder, and at once if `look` sees one, until the result is disposed. */
  watch(onChange: () => void, { powers, delayMs }: { powers: Powers; delayMs: number }): Disposable & { look(): void } {
    let watcher: FSWatcher | undefined;
    let timer: Timer | undefined;
    const stamp = () => statSync(this.path, { bigint: true, throwIfNoEntry: false })?.mtimeNs;
    let seen: bigint | undefined;
    const failed = (error: unknown) => {
      watcher?.close();
      const about = { folder: this.path, error: `${error as Error}` };
      powers.log.warn(about, `can not watch ${this.of.kind}s; changes are noticed after a restart`);
    };
    try {
      watcher = watch(this.#open(), { persistent: false }, () => {
        timer?.cancel();
        timer = powers.after(delayMs, onChange);
      });
      watcher.on('error', failed);
      seen = stamp();
    } catch (error) {
      failed(error);
    }
    return {
      look() {
        const now = stamp();
        if (now === seen) return;
        seen = now;
        onChange();
      },
      [Symbol.dispose]() {
        timer?.cancel();
        watcher?.close();
      },
    };
  }

  #fileOf(name: string): string {
    return join(this.path, `${name}.json`);
  }

  /** Creates the folder, accessible only to its owner. */
  #open(): string {
    mkdirSync(this.path, { recursive: true, mode: 0o700 });
    // An unneeded chmod would trigger the watcher, which would reload.
    if ((statSync(this.path).mode & 0o777) !== 0o700) chmodSync(this.path, 0o700);
    return this.path;
  }
}

/** Hash of a set of files, independent of their order. */
export function hashOf(files: PinnedFiles): string {
  const hash = createHash('sha256');
  for (const path of Object.keys(files).sort()) {
    const bytes = Buffer.from(files[path] as string);
    hash.update(`${path}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}
