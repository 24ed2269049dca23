/**
 * Programs of the person that follow a workspace (vite, jest, language servers): they may run at once what agents change
 * there, with the person's rights, and no wall stands between. They are found by their inotify marks, which the kernel
 * lists by inode and device, as it lists those of our own follower.
 */
import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { nativeProgram } from '../../base/native-programs.ts';
import { isInside } from '../../base/paths.ts';
import type { Powers } from '../../base/powers.ts';
import type { OutsideProgram } from '../../base/protected-names.ts';
import { textAt } from '../../base/quiet/reads.ts';

/** Text about the marks of one process: 60 000 of them. One with more is judged by those that it made last. */
const MARKS_CHARS_MAX = 8 * 1024 * 1024;
/** Descriptors of one process that are looked at. */
const DESCRIPTORS_MAX = 4_096;
const LABEL_CHARS_MAX = 60;
/** Programs whose first argument says more than their own name. */
const INTERPRETER = /^(?:node|bun|deno|python|ruby|perl|php|java)[\d.]*$/;

/** Time between two looks while commands run. */
const LOOK_MS = 60_000;

interface LookedAt {
  readonly workspace: string;
  /** The process that follows it for us. */
  readonly follower: { readonly pid: number | undefined };
  readonly powers: Pick<Powers, 'log' | 'monotonicMs'>;
}

/** Looks from time to time, and gives each program of a workspace once. */
export class OutsidePrograms {
  readonly #place: LookedAt;
  readonly #told = new Set<string>();
  #fresh: OutsideProgram[] = [];
  #found: readonly OutsideProgram[] = [];
  #lookedAt = -Infinity;

  constructor(place: LookedAt) {
    this.#place = place;
  }

  /** Gives the programs that were found since the last time. */
  take(): readonly OutsideProgram[] {
    const fresh = this.#fresh;
    this.#fresh = [];
    return fresh;
  }

  /** All that the last look found. */
  get found(): readonly OutsideProgram[] {
    return this.#found;
  }

  /** Looks in the background, if the last look is long ago. */
  look(everyMs = LOOK_MS): void {
    const { workspace, follower, powers } = this.#place;
    const now = powers.monotonicMs();
    if (now - this.#lookedAt < everyMs) return;
    this.#lookedAt = now;
    outsidePrograms({ workspace, follower }).then(
      (all) => {
        this.#found = all;
        const fresh = all.filter(({ program }) => !this.#told.has(program));
        for (const { program } of fresh) this.#told.add(program);
        this.#fresh.push(...fresh);
      },
      (error: unknown) => powers.log.warn({ error, workspace }, 'programs that follow the workspace are not known'),
    );
  }
}

/** Finds the programs outside of sandboxes that follow a workspace. Those of other users are not seen, but by root. */
async function outsidePrograms({ workspace, follower }: Omit<LookedAt, 'powers'>): Promise<OutsideProgram[]> {
  const found: OutsideProgram[] = [];
  const { folders, device } = await foldersOf(workspace, follower.pid);
  for (const pid of pids()) {
    // Lets others have their turn: a machine may have thousands of processes.
    await new Promise(setImmediate);
    const descriptors = isOutside(pid) ? inotifyOf(pid) : [];
    if (descriptors.length === 0) continue;
    const marks = await marksOf(pid, descriptors);
    const cwd = linkOf(`/proc/${pid}/cwd`) ?? '/';
    // A program that runs in the workspace may follow single files, of which we have no list.
    const isNear = isInside(workspace, cwd);
    if (marks.some((it) => folders.has(it) || (isNear && it.endsWith(` ${device}`))))
      found.push({ workspace, program: labelOf(pid), pid: Number(pid) });
  }
  return found;
}

/** Folders of a workspace as marks name them: those that our follower watches, and the workspace's own. */
async function foldersOf(
  workspace: string,
  pid: number | undefined,
): Promise<{ folders: ReadonlySet<string>; device: string }> {
  const folders = new Set(pid === undefined ? [] : await marksOf(pid, inotifyOf(`${pid}`)));
  const [first] = folders;
  const device = first?.split(' ')[1] ?? '';
  const own = fs.statSync(workspace, { bigint: true, throwIfNoEntry: false });
  if (own) folders.add(`${own.ino.toString(16)} ${device}`);
  return { folders, device };
}

const pids = (): string[] => fs.readdirSync('/proc').filter((it) => /^\d+$/.test(it));

/** Whether a process is neither in a sandbox nor ours; false also for one that is gone or hidden from us. */
function isOutside(pid: string): boolean {
  const space = linkOf(`/proc/${pid}/ns/pid`);
  if (space === undefined || space !== linkOf('/proc/self/ns/pid') || pid === `${process.pid}`) return false;
  const program = linkOf(`/proc/${pid}/exe`);
  return program !== undefined && basename(program) !== basename(nativeProgram('follow'));
}

/** Descriptors of inotify that a process has. */
function inotifyOf(pid: string): string[] {
  try {
    const folder = `/proc/${pid}/fd`;
    const all = fs.readdirSync(folder).slice(0, DESCRIPTORS_MAX);
    return all.filter((it) => linkOf(join(folder, it)) === 'anon_inode:inotify');
  } catch {
    return []; // ENOENT, EACCES: the process is gone, or another user's.
  }
}

/** Inode and device of what a process watches. */
async function marksOf(pid: string | number, descriptors: readonly string[]): Promise<string[]> {
  const marks: string[] = [];
  try {
    for (const descriptor of descriptors) {
      const options = { encoding: 'latin1', end: MARKS_CHARS_MAX } as const;
      let rest = '';
      for await (const chunk of fs.createReadStream(`/proc/${pid}/fdinfo/${descriptor}`, options)) {
        const lines = `${rest}${chunk}`.split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          const [, inode, device] = /^inotify .* ?ino:([\da-f]+) sdev:([\da-f]+)/.exec(line) ?? [];
          if (inode !== undefined) marks.push(`${inode} ${device}`);
        }
      }
    }
  } catch {
    // ENOENT, ESRCH: the process is gone.
  }
  return marks;
}

/** The name of a program, or of the script that its interpreter runs. */
function labelOf(pid: string): string {
  const words = (textAt(`/proc/${pid}/cmdline`) ?? '').split('\0');
  const program = basename(words[0] ?? '') || 'a program';
  const script = INTERPRETER.test(program) ? words.slice(1).find((it) => it !== '' && !it.startsWith('-')) : undefined;
  return (script === undefined ? program : `${program} ${basename(script)}`).slice(0, LABEL_CHARS_MAX);
}

function linkOf(path: string): string | undefined {
  try {
    return fs.readlinkSync(path);
  } catch {
    return undefined; // ENOENT, EACCES: gone, or another user's.
  }
}
