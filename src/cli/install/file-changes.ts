/** What an install changes in which file, and what is kept for its undo. */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { writeWhole } from '../../daemon/config/write-whole.ts';
import { makeStateDir, type UserDirs } from '../../daemon/user-dirs.ts';
import { OperatorError } from '../output.ts';
import type { Denials } from './agents.ts';
import { withEntry } from './config-edit.ts';
import type { ConfigTarget } from './mcp-clients.ts';
import { withoutSettings, withSettings } from './settings-edit.ts';

/** One edit of a configuration file. */
export interface FileEdit {
  readonly path: string;
  apply(text: string): string;
  /** The text without the edit; `original` is the text before it. */
  revert(text: string, original: string): string;
}

export interface FileChange {
  readonly path: string;
  /** Undefined where the file does not exist. */
  readonly before: string | undefined;
  /** Undefined where the file is to be removed. */
  readonly after: string | undefined;
}

export const entryEdit = (target: ConfigTarget): FileEdit => ({
  path: chosen(target.files),
  apply: (text) => withEntry(text, target, target.entry),
  revert: (text) => withEntry(text, target, undefined),
});

export const denialEdit = (denials: Denials): FileEdit => ({
  path: chosen(denials.files),
  apply: (text) => withSettings(text, denials),
  revert: (text, original) => withoutSettings(text, original, denials),
});

const chosen = (files: readonly string[]): string => files.find((it) => existsSync(it)) ?? (files[0] as string);

/** The change of each file, with all edits of one file in one change. Throws OperatorError, naming the file. */
export function planChanges(edits: readonly FileEdit[], records: InstallRecords, isUndo: boolean): FileChange[] {
  return [...Map.groupBy(edits, (it) => it.path)].map(([path, ofFile]) => {
    const before = existsSync(path) ? textOf(path) : undefined;
    try {
      const after = isUndo
        ? undone(before, records.of(path), ofFile)
        : ofFile.reduce((text, it) => it.apply(text), before ?? '');
      return { path, before, after };
    } catch (error) {
      if (error instanceof OperatorError) throw new OperatorError(`can't change ${path}: ${error.message}`);
      throw error;
    }
  });
}

/**
 * The text before the install if nothing else has changed it since; otherwise the current text without our edits. Undefined if the file did
 * not exist.
 */
function undone(
  before: string | undefined,
  known: InstallRecord | undefined,
  edits: readonly FileEdit[],
): string | undefined {
  if (before === undefined) return undefined;
  if (known?.after === digestOf(before)) return known.before ?? undefined;
  return edits.reduce((text, it) => it.revert(text, known?.before ?? ''), before);
}

/** The text of a file. Throws OperatorError unless it is UTF-8, since other encodings could not be restored. */
export function textOf(path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(path));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'the file is not UTF-8' : code;
    throw new OperatorError(`can't read ${path}: ${why}`);
  }
}

const KEPT_CHARS_MAX = 1024 * 1024;
const keptSchema = z.record(z.string(), z.strictObject({ before: z.string().nullable(), after: z.string() }));
/** A file's text before the install, null if it did not exist, and the digest of what we wrote. */
type InstallRecord = z.output<typeof keptSchema>[string];

/** The records of all installs, kept in the state directory by the path of the file. */
export class InstallRecords {
  readonly #dirs: UserDirs;
  #kept: z.output<typeof keptSchema>;

  /** Throws OperatorError if the file of records was changed. */
  constructor(dirs: UserDirs) {
    this.#dirs = dirs;
    this.#kept = existsSync(this.#path) ? this.#read() : {};
  }

  get #path(): string {
    return join(this.#dirs.stateDir, 'installs.json');
  }

  #read(): z.output<typeof keptSchema> {
    try {
      return keptSchema.parse(JSON.parse(textOf(this.#path)));
    } catch {
      throw new OperatorError(
        `${this.#path} was not written by \`ringfence install\`; remove the file to continue without undo`,
      );
    }
  }

  of(path: string): InstallRecord | undefined {
    return this.#kept[path];
  }

  /** Keeps what an undo of this change needs, or forgets it after an undo. */
  note({ path, before, after }: FileChange, isUndo: boolean): void {
    const { [path]: first, ...others } = this.#kept;
    // Undo restores the state before the first of several installs.
    const was = first && before !== undefined && first.after === digestOf(before) ? first.before : (before ?? null);
    const isKept = !isUndo && after !== undefined && (was ?? '').length <= KEPT_CHARS_MAX;
    this.#kept = isKept ? { ...others, [path]: { before: was, after: digestOf(after) } } : others;
    makeStateDir(this.#dirs.stateDir);
    writeWhole(this.#path, JSON.stringify(this.#kept));
  }
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
