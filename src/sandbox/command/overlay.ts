/**
 * An overlay of a workspace, for one command: what the command changes goes to a folder of the daemon, and the workspace stays as it
 * is. native/mount-overlay.c mounts it in a user and a mount namespace of its own, in which bubblewrap then builds the sandbox of the command
 * as always: the masks are the same binds, over the merged tree (docs/decisions/0024-previews.md).
 */
import { chmodSync, close, constants, lstatSync, mkdirSync, openSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import { ToolError } from '../../base/errors.ts';
import { nativeProgram } from '../../base/native-programs.ts';

/** Parts of a preview's folder: what the command wrote, the kernel's scratch folder, the list of the changes, changed texts as they were. */
export const PREVIEW_PARTS = { upper: 'upper', work: 'work', list: 'changes.json', old: 'old' } as const;

/** Begins what native/mount-overlay.c prints if the kernel refuses the overlay; the number of an error follows. */
const REFUSED = /no overlay: (\d+)/;

/** Characters that separate paths or options in those of an overlay. */
const SEPARATORS = /[,:\\]/;

export class Overlay implements Disposable {
  readonly workspace: string;
  /** The folder that holds what the command changes. */
  readonly upper: string;
  /** File for the list of the changes. */
  readonly list: string;
  /** Folder for the texts that the command changed, as they were. */
  readonly old: string;
  /** When it was made, by the clock that stamps changes of files, in nanoseconds. */
  readonly sinceNs: bigint;
  readonly #folder: string;
  #merged: number | undefined;

  /** Makes the folders of an overlay in a folder that exists. Throws UNSUPPORTED for a name that no overlay can be told. */
  constructor(folder: string, workspace: string) {
    if (SEPARATORS.test(folder))
      throw unsupported(`the state directory has a comma, a colon or a backslash in its name: ${folder}`);
    this.#folder = folder;
    this.workspace = workspace;
    this.list = join(folder, PREVIEW_PARTS.list);
    this.upper = join(folder, PREVIEW_PARTS.upper);
    this.old = join(folder, PREVIEW_PARTS.old);
    mkdirSync(join(folder, PREVIEW_PARTS.work), 0o700);
    // The root of the merged tree shows the permissions of this folder.
    mkdirSync(this.upper, 0o700);
    chmodSync(this.upper, lstatSync(workspace).mode & 0o777);
    this.sinceNs = lstatSync(this.upper, { bigint: true }).ctimeNs;
  }

  /** Words that execute bubblewrap over the overlay. */
  get words(): readonly string[] {
    const [upper, work] = [this.upper, join(this.#folder, PREVIEW_PARTS.work)];
    // `.` needs no escapes, whatever the workspace is called. Nothing of a preview outlives this daemon, so no write waits for the disk.
    const options = `lowerdir=.,upperdir=${upper},workdir=${work},userxattr,volatile`;
    return [nativeProgram('mount-overlay'), this.workspace, options, join(work, 'work')];
  }

  /**
   * Keeps the merged tree, without any masks, from the namespace of `pid`, bubblewrap's own process; to be called before the
   * command begins. Listing its folders later tells what the command removed, without any knowledge of how overlays store it.
   */
  hold(pid: number): void {
    this.#merged ??= openSync(`/proc/${pid}/root${this.workspace}`, constants.O_RDONLY | constants.O_DIRECTORY);
  }

  /** Path of the merged tree, also after the command has ended. */
  get merged(): string {
    return `/proc/self/fd/${this.#merged}`;
  }

  /** The error of a sandbox that could not be built, from what was printed; undefined if the overlay was not the reason. */
  static refusal(printed: string): ToolError | undefined {
    const [, number] = REFUSED.exec(printed) ?? [];
    return number === undefined ? undefined : unsupported(getSystemErrorMessage(-Number(number)) ?? `error ${number}`);
  }

  [Symbol.dispose](): void {
    // The kernel unmounts the overlay, which takes milliseconds, and nobody needs to wait for it.
    if (this.#merged !== undefined) close(this.#merged);
    this.#merged = undefined;
  }
}

const unsupported = (why: string): ToolError =>
  new ToolError('UNSUPPORTED', `this machine can show no preview of a command: ${why} (Linux ${release()})`, {
    suggestion:
      'Run `ringfence doctor`; a preview takes Linux 5.11 or newer, and a state directory that is no overlay itself.',
  });
