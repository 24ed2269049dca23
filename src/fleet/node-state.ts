/** What a node remembers of its orders across restarts. */
import { existsSync, readFileSync } from 'node:fs';
import * as z from 'zod';
import { replaceFile } from '../base/disk.ts';
import { jsonOr } from '../base/text/json.ts';

const stored = z.strictObject({ isDraining: z.boolean(), lastIssuedAtMs: z.int().min(0) });

export class NodeState {
  readonly #path: string;
  #now: z.infer<typeof stored>;

  /** Reads the file. A file that is damaged counts as missing: orders are signed and expire. */
  constructor(path: string) {
    this.#path = path;
    const read = existsSync(path) ? stored.safeParse(jsonOr(readFileSync(path, 'utf8'), undefined)) : undefined;
    this.#now = read?.success ? read.data : { isDraining: false, lastIssuedAtMs: 0 };
  }

  get isDraining(): boolean {
    return this.#now.isDraining;
  }

  /** When the last order was issued that changed something. */
  get lastIssuedAtMs(): number {
    return this.#now.lastIssuedAtMs;
  }

  /** Notes an order before it is obeyed, so that it is obeyed once. */
  note(lastIssuedAtMs: number, isDraining: boolean = this.#now.isDraining): void {
    this.#now = { isDraining, lastIssuedAtMs };
    replaceFile(this.#path, JSON.stringify(this.#now));
  }
}
