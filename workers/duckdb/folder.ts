/** Looks through the folder of a connection: which of its files statements may read. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';

export interface FolderContent {
  /** Regular files that no rule refuses, relative to the folder, in order. */
  readonly files: readonly string[];
  /** Whether no entry is refused, so that statements may read the whole folder. */
  readonly isWhole: boolean;
}

export interface FolderRules {
  /** Whether a rule keeps a path, relative to the folder, from the call. */
  readonly isRefused: (path: string) => boolean;
  readonly entriesMax: number;
}

/** Walks a folder without following links. Throws FILE_LIMIT if it has more entries than may be looked at. */
export function lookThrough(folder: string, { isRefused, entriesMax }: FolderRules): FolderContent {
  const files: string[] = [];
  const waiting = [''];
  let isWhole = true;
  let entries = 0;
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const found = entriesOf(join(folder, at));
    if (!found) isWhole = false;
    for (const entry of found ?? []) {
      entries += 1;
      if (entries > entriesMax)
        throw new ToolError('FILE_LIMIT', `the folder of the connection has more than ${entriesMax} entries`, {
          suggestion: 'Ask the operator for a connection to a smaller folder.',
          details: { limit: entriesMax, enforcedBy: 'tool' },
        });
      const name = entry.name.toString();
      const path = join(at, name);
      // Rules can't name what is not UTF-8.
      if (!Buffer.from(name).equals(entry.name) || isRefused(path)) isWhole = false;
      else if (entry.isDirectory()) waiting.push(path);
      else if (entry.isFile()) files.push(path);
    }
  }
  return { files: files.sort(), isWhole };
}

/** Undefined for a folder that is hidden or gone. */
function entriesOf(path: string) {
  try {
    return readdirSync(path, { withFileTypes: true, encoding: 'buffer' });
  } catch {
    return undefined; // ENOENT, EACCES
  }
}

const DATA = /\.(csv|tsv|parquet|json|jsonl|ndjson)(\.(gz|zst))?$/i;

/** Whether DuckDB reads a file by its name alone. */
export const isDataFile = (path: string): boolean => DATA.test(path);
