/**
 * Marks in the state directory of workspaces that are being read for the first time: a daemon that dies then leaves its
 * mark. After two deaths in a row the next daemon starts without following that workspace, so that it starts at all.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { textAt } from '../../base/quiet/reads.ts';

const DEATHS_MAX = 2;

export class WalkMarks {
  readonly #folder: string;

  /** The folder is made with the first mark. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Notes that a workspace is being read; false if two daemons have died doing so. The one after may try again. */
  begin(workspace: string): boolean {
    const path = this.#at(workspace);
    const deaths = Number(textAt(path)) || 0;
    if (deaths >= DEATHS_MAX) {
      rmSync(path, { force: true });
      return false;
    }
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      writeFileSync(path, `${deaths + 1}`, { mode: 0o600 });
    } catch {
      // The disk is full: then a death is not counted.
    }
    return true;
  }

  /** The workspace was read, or can't be. */
  end(workspace: string): void {
    rmSync(this.#at(workspace), { force: true });
  }

  #at(workspace: string): string {
    return join(this.#folder, createHash('sha256').update(workspace).digest('hex').slice(0, 32));
  }
}
