/**
 * The previews that are kept: which there are, whose they are, how long they stay. Hosts keep what the commands wrote, in a folder for
 * each preview. A daemon that starts anew removes them all: what lies below them may have changed unseen.
 */

import { hash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';
import type { CommandPreview, PreviewReport } from '../base/preview.ts';
import { namesAt } from '../base/quiet/reads.ts';
import { removeTrees } from '../base/remove-trees.ts';

export interface PreviewsOptions {
  /** The daemon's state directory. */
  readonly stateDir: string;
  readonly limits: Limits;
  readonly powers: Powers;
}

export interface PreviewedCall {
  readonly callId: string;
  readonly sessionId: string;
  readonly principal: string;
  readonly workspace: string;
  readonly command: string;
  /** Whether the policy asks a person about the command. */
  readonly isAsked: boolean;
}

/** A preview that can be looked at and committed. */
export interface KeptPreview extends PreviewedCall {
  readonly id: string;
  readonly shown: CommandPreview;
  readonly steps: PreviewReport['steps'];
}

/** The session that asks for a preview; `principal` is empty for one who may reach only what its own session made. */
export type PreviewUser = Pick<PreviewedCall, 'sessionId' | 'principal' | 'workspace'>;

interface Entry {
  readonly id: string;
  readonly of: PreviewedCall;
  readonly folder: string;
  /** Set once its command has ended. */
  kept?: KeptPreview;
  bytes: number;
  timer?: Timer;
  /** Commits that are under way. */
  uses: number;
}

export class Previews implements Disposable {
  readonly #options: PreviewsOptions;
  readonly #root: string;
  readonly #entries = new Map<string, Entry>();
  /** Previews of earlier daemons, so that who asks for one is told why it is gone. */
  readonly #lost = new Set<string>();
  /** Folders of discarded previews, until they are removed together. */
  #discarded: string[] = [];
  #removal: Timer | undefined;

  constructor(options: PreviewsOptions) {
    this.#options = options;
    this.#root = join(options.stateDir, 'previews');
    fs.mkdirSync(this.#root, { recursive: true, mode: 0o700 });
  }

  get status(): { kept: number; bytes: number } {
    return { kept: this.#entries.size, bytes: this.#bytes };
  }

  /**
   * The folder for a workspace, created if missing; undefined if no host could reach it: with a root daemon hosts run as the workspace's
   * owner, who can't enter the state directory.
   */
  folderOf(workspace: string): string | undefined {
    if (process.getuid?.() === 0 && (fs.statSync(workspace, { throwIfNoEntry: false })?.uid ?? 0) !== 0)
      return undefined;
    const folder = join(this.#root, hash('sha256', workspace).slice(0, 32));
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    return folder;
  }

  /** Makes room for a preview, and its folder; gives its id. Throws RATE_LIMITED, UNSUPPORTED. */
  begin(of: PreviewedCall): string {
    const { limits, powers } = this.#options;
    const { previewsPerSessionMax: ownMax } = limits;
    const own = [...this.#entries.values()].filter((it) => it.of.sessionId === of.sessionId).length;
    if (own >= ownMax)
      throw new ToolError('RATE_LIMITED', `this session has ${own} previews; at most ${ownMax} are kept`, {
        suggestion: 'Commit or discard one of them: calls.commit, calls.discard.',
        details: { limit: ownMax, used: own, enforcedBy: 'daemon' },
      });
    const parent = this.folderOf(of.workspace);
    if (parent === undefined)
      throw new ToolError('UNSUPPORTED', 'a daemon of root shows no previews in workspaces of other users', {
        suggestion: "Run the daemon as the workspace's owner.",
      });
    this.#makeRoom(limits.previewsMax - 1);
    const id = powers.uuid();
    const folder = join(parent, id);
    fs.mkdirSync(folder, { mode: 0o700 });
    this.#entries.set(id, { id, of, folder, bytes: 0, uses: 0 });
    return id;
  }

  /** Keeps a preview whose command has ended; `bytes` of it are on the disk. Throws FILE_LIMIT. */
  keep(id: string, { changes, total, unsupported, steps, bytes }: PreviewReport): CommandPreview {
    const { limits, powers } = this.#options;
    const entry = this.#entries.get(id);
    if (!entry) throw notKept(id);
    if (bytes > limits.previewBytesMax) {
      this.discard(id);
      throw new ToolError('FILE_LIMIT', `the command wrote ${bytes} bytes; a preview holds ${limits.previewBytesMax}`, {
        details: { limit: limits.previewBytesMax, used: bytes, enforcedBy: 'daemon' },
      });
    }
    entry.bytes = bytes;
    const expiresAt = new Date(powers.now() + limits.previewKeptMs).toISOString();
    const shown = { id, expiresAt, changes, total, unsupported };
    entry.kept = { ...entry.of, id, shown, steps };
    entry.timer = powers.after(limits.previewKeptMs, () => this.discard(id));
    this.#makeRoom(limits.previewsMax, entry);
    return shown;
  }

  /** A preview of the caller's session, or of its principal in its workspace. Throws NOT_FOUND. */
  find(id: string, { sessionId, principal, workspace }: PreviewUser): KeptPreview {
    if (this.#lost.has(id)) throw lost(id);
    const kept = this.#entries.get(id)?.kept;
    const isTheirs = kept?.sessionId === sessionId || (principal !== '' && kept?.principal === principal);
    if (!kept || !isTheirs || kept.workspace !== workspace) throw notKept(id);
    return kept;
  }

  /** Keeps a preview from being dropped to make room until disposed of. Throws NOT_FOUND. */
  use(id: string): Disposable {
    const entry = this.#entries.get(id);
    if (!entry) throw notKept(id);
    entry.uses += 1;
    let isUsed = true;
    return {
      [Symbol.dispose]: () => {
        if (isUsed) entry.uses -= 1;
        isUsed = false;
      },
    };
  }

  discard(id: string): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    if (entry.uses > 0) {
      // The preview expired during its commit; it is removed once the commit is over.
      entry.timer = this.#options.powers.after(USED_MS, () => this.discard(id));
      return;
    }
    this.#entries.delete(id);
    entry.timer?.cancel();
    this.#discarded.push(entry.folder);
    // The caller need not wait for the start of a process.
    this.#removal ??= this.#options.powers.after(REMOVAL_MS, () => this.#removeDiscarded());
  }

  /** Ends with the daemon. Of the previews that can be committed an empty folder stays: the next daemon knows them as lost. */
  [Symbol.dispose](): void {
    this.#removal?.cancel();
    for (const { timer, kept, folder } of this.#entries.values()) {
      timer?.cancel();
      this.#discarded.push(...(kept ? namesAt(folder).map((it) => join(folder, it)) : [folder]));
    }
    this.#entries.clear();
    this.#removeDiscarded();
  }

  /** Removes what an earlier daemon left, and remembers the newest previews of it as lost. No host may be running. */
  prune(): void {
    const left = fs
      .readdirSync(this.#root)
      .flatMap((name) =>
        fs.readdirSync(join(this.#root, name)).map((it) => ({ id: it, path: join(this.#root, name, it) })),
      );
    // Ids begin with the time.
    const newest = left.toSorted((a, b) => (a.id < b.id ? 1 : -1)).slice(0, this.#options.limits.previewsMax);
    for (const { id } of newest) this.#lost.add(id);
    if (left.length > 0) this.#remove(left.map(({ path }) => path));
  }

  get #bytes(): number {
    return [...this.#entries.values()].reduce((sum, it) => sum + it.bytes, 0);
  }

  /** Drops the oldest of the principal who keeps most, so that nobody can make others lose theirs; never `except`. */
  #makeRoom(countMax: number, except?: Entry): void {
    const { previewBytesMax } = this.#options.limits;
    while (this.#entries.size > countMax || this.#bytes > previewBytesMax) {
      const droppable = [...this.#entries.values()].filter((it) => it.kept && it.uses === 0 && it !== except);
      const byPrincipal = Map.groupBy(droppable, (it) => it.of.principal);
      const share = (them: readonly Entry[]) => them.reduce((sum, it) => sum + it.bytes + 1, 0);
      const [largest] = [...byPrincipal.values()].toSorted((a, b) => share(b) - share(a));
      const oldest = largest?.[0];
      if (!oldest) return;
      this.discard(oldest.id);
    }
  }

  #removeDiscarded(): void {
    this.#removal = undefined;
    const folders = this.#discarded;
    this.#discarded = [];
    if (folders.length > 0) this.#remove(folders);
  }

  #remove(folders: readonly string[]): void {
    removeTrees(folders, 'previews', this.#options.powers).unref();
  }
}

/** Time until a preview that is being committed is looked at again. */
const USED_MS = 5_000;

/** Time from a discard to the removal of its folder. */
const REMOVAL_MS = 50;

const lost = (id: string): ToolError =>
  new ToolError('NOT_FOUND', `preview ${id} was lost when the daemon restarted`, {
    suggestion:
      'Nobody watched the files below it meanwhile, so it could not be committed safely; run the command again with preview.',
  });

const notKept = (id: string): ToolError =>
  new ToolError('NOT_FOUND', `there is no preview ${id.slice(0, 64)}`, {
    suggestion:
      'It was committed, discarded, or dropped for its age or for later ones; run the command again with preview.',
  });
