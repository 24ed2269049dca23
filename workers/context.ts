/** Builds the ToolContext of one job. Architecture invariant: the only maker of Checked values. */
import { hash, randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { normalize } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { FileChange } from '../src/call.ts';
import { type Code, ToolError } from '../src/errors.ts';
import type { Job, JobUsage, PathView } from '../src/hosts/job.ts';
import type { CommandBounds, Limits } from '../src/limits.ts';
import { isProtected } from '../src/paths.ts';
import type { Powers } from '../src/powers.ts';
import { type CommandOutcome, type CommandRequest, type CommandSetup, runCommand } from '../src/sandbox/command.ts';
import type { Masks } from '../src/sandbox/masks.ts';
import type { Exceeded } from '../src/sandbox/watchdog.ts';
import type {
  CheckedCommand,
  CheckedDirectory,
  CheckedFile,
  CheckedTarget,
  CommandResult,
  EntryType,
  ToolContext,
} from '../src/tools/tool.ts';
import { type Anchor, below, codeOf, outside, toAccessError } from './anchor.ts';
import { PathRules } from './path-rules.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants;

export interface ContextOptions {
  readonly workspace: string;
  readonly anchor: Anchor;
  /** The rules on paths that the job is held to. */
  readonly view: PathView;
  /** What its commands may not see or change. */
  readonly masks: Masks;
  /** All that its writes may replace, where a person approved them. */
  readonly preImages?: Job['preImages'];
  /** What each of its commands may use; absent for jobs that run none. */
  readonly bounds?: CommandBounds;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Absent in hosts that run no commands. */
  readonly command?: CommandSetup;
  readonly signal: AbortSignal;
  readonly onOutput?: CommandRequest['onOutput'];
}

const hashOf = (bytes: Uint8Array): string => `sha256:${hash('sha256', bytes, 'hex')}`;
const modeOf = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, '0');

export class WorkerContext implements ToolContext {
  readonly signal: AbortSignal;
  readonly limits: Limits;
  readonly hashOf = hashOf;
  readonly #options: ContextOptions;
  readonly #rules: PathRules;
  readonly #changed: FileChange[] = [];
  readonly #commands: Pick<JobUsage, 'cpuMs' | 'outputBytes' | 'peakBytes' | 'processes' | 'verdict'> = {
    cpuMs: 0,
    outputBytes: 0,
    verdict: 'ok',
  };
  #truncatedBytes = 0;

  constructor(options: ContextOptions) {
    this.#options = options;
    this.#rules = new PathRules(options.view, options.workspace);
    this.signal = options.signal;
    this.limits = options.limits;
  }

  /** What the job used and changed, for its result; `threadCpuMs` is the thread's own. */
  usage(threadCpuMs: number): JobUsage {
    return {
      ...this.#commands,
      cpuMs: this.#commands.cpuMs + threadCpuMs,
      enforcedBy: this.#options.command ? 'pid namespace, timer, rlimits, watchdog' : 'worker thread, timer',
      ...(this.#truncatedBytes > 0 && { truncatedBytes: this.#truncatedBytes }),
      ...(this.#changed.length > 0 && { filesChanged: this.#changed }),
    };
  }

  open(path: string): CheckedFile {
    const { anchor } = this.#options;
    anchor.assertInside(path);
    const { fd } = this.#rules.open(path, () => anchor.open(path));
    const stat = fs.fstatSync(fd);
    if (!stat.isFile()) {
      fs.closeSync(fd);
      const what = stat.isDirectory() ? 'a directory' : 'not a regular file';
      throw new ToolError(
        'UNSUPPORTED',
        `\`${path}\` is ${what}`,
        stat.isDirectory() ? { suggestion: 'List it with file_list.' } : {},
      );
    }
    const { fileBytesMax } = this.limits;
    return {
      path,
      size: stat.size,
      mode: modeOf(stat.mode),
      modifiedAt: stat.mtime.toISOString(),
      bytes: () => readAll({ fd, path, size: stat.size }, fileBytesMax),
      [Symbol.dispose]: () => fs.closeSync(fd),
    } as CheckedFile;
  }

  openDirectory(path: string): CheckedDirectory {
    const { anchor } = this.#options;
    anchor.assertInside(path);
    const { fd } = this.#rules.open(path, () => anchor.open(path));
    if (fs.fstatSync(fd).isDirectory()) return directoryAt(fd, path, this.#rules.refusedBelow(path));
    fs.closeSync(fd);
    throw new ToolError('UNSUPPORTED', `\`${path}\` is not a directory`, { suggestion: 'Read it with file_read.' });
  }

  target(path: string, { createDirs }: { createDirs: boolean }): CheckedTarget {
    const { anchor } = this.#options;
    anchor.assertInside(path);
    const plain = normalize(path);
    refuseProtected(this.#rules.named(plain), path);
    this.#rules.check('write', path);
    const { fd, name, realPath } = anchor.place(path, createDirs);
    try {
      // A link on the way may have led to a place that says more than its own name.
      refuseProtected(this.#rules.named(realPath), path);
      this.#rules.check('write', path, realPath);
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
    const { fileBytesMax } = this.limits;
    return {
      path,
      hash: () => hashAt(fd, name, path, fileBytesMax),
      replace: (content, options) => {
        const created = replaceAt({ fd, name, path }, content, {
          ...options,
          assertSame: () => this.#assertApproved(path, () => hashAt(fd, name, path, fileBytesMax)),
        });
        this.#changed.push({ path, kind: created ? 'create' : 'modify' });
        return { created };
      },
      [Symbol.dispose]: () => fs.closeSync(fd),
    } as CheckedTarget;
  }

  /** A write replaces nothing that the person who said yes to it was not shown. Throws APPROVAL_STALE. */
  #assertApproved(path: string, hashNow: () => string | undefined): void {
    const { preImages } = this.#options;
    if (!preImages) return;
    const approved = preImages.find((it) => it.path === path);
    if (approved && approved.hash === (hashNow() ?? null)) return;
    throw new ToolError('APPROVAL_STALE', `\`${path}\` is not what it was when its change was approved`, {
      suggestion: 'Look at what changed and call again; the person is asked again.',
      details: { changed: [`the file ${path}`] },
    });
  }

  command(request: { command: string; cwd: string; env: Record<string, string>; stdin?: string }): CheckedCommand {
    const { workspace, anchor, masks, bounds, signal, onOutput } = this.#options;
    anchor.assertInside(request.cwd);
    const { fd, realPath: cwd } = this.#rules.open(request.cwd, () => anchor.open(request.cwd));
    try {
      if (!fs.fstatSync(fd).isDirectory())
        throw new ToolError('UNSUPPORTED', `cwd \`${request.cwd}\` is not a directory`);
      const rest = { workspace, masks, bounds, signal, ...(onOutput && { onOutput }) };
      return { ...request, ...rest, cwd } as unknown as CheckedCommand;
    } finally {
      fs.closeSync(fd);
    }
  }

  async run(command: CheckedCommand): Promise<CommandResult> {
    const { command: setup, powers } = this.#options;
    const request = command as unknown as CommandRequest;
    // Without bounds there would be no end to what it takes.
    if (!setup || !request.bounds) throw new ToolError('SANDBOX_DENIED', 'this tier runs no commands');
    const outcome = await runCommand(request, setup, powers);
    const { exitCode, signal, stdout, stderr, durationMs, outputBytes } = outcome;
    this.#count(outcome);
    if (outcome.truncated) this.truncated(outputBytes);
    if (exitCode === undefined) throw this.#killed(outcome);
    return { stdout, stderr, exitCode, ...(signal !== undefined && { signal }), durationMs };
  }

  #count({ used, outputBytes }: CommandOutcome): void {
    const all = this.#commands;
    all.cpuMs += used.cpuMs;
    all.outputBytes += outputBytes;
    if (used.peakBytes !== undefined) all.peakBytes = Math.max(all.peakBytes ?? 0, used.peakBytes);
    if (used.processes !== undefined) all.processes = Math.max(all.processes ?? 0, used.processes);
  }

  #killed({ ended, used, outputBytes, stdout, stderr }: CommandOutcome): ToolError {
    const output = { stdout, stderr };
    if (ended === 'exceeded' && used.exceeded) {
      this.#commands.verdict = used.exceeded.kind;
      return overLimit(used.exceeded, output);
    }
    if (ended !== 'output') return new ToolError('CANCELLED', 'the command was ended', { details: output });
    const limit = this.limits.commandOutputBytesMax;
    this.#commands.verdict = 'output';
    return new ToolError('OUTPUT_LIMIT', `the command wrote more than ${limit} bytes and was ended`, {
      suggestion: 'Send the output to a file of the workspace, or filter it.',
      details: { limit, used: outputBytes, enforcedBy: 'daemon', ...output },
    });
  }

  truncated(bytesTotal: number): void {
    this.#truncatedBytes = Math.max(this.#truncatedBytes, bytesTotal);
  }

  async breathe(): Promise<void> {
    await setImmediate();
    this.signal.throwIfAborted();
  }
}

const OVER: Record<Exceeded['kind'], { code: Code; says: (limit: number) => string }> = {
  memory: { code: 'MEMORY_LIMIT', says: (limit) => `took more than ${limit} bytes of memory` },
  cpu: { code: 'CPU_LIMIT', says: (limit) => `took more than ${limit} ms of CPU time` },
  processes: { code: 'PROCESS_LIMIT', says: (limit) => `had more than ${limit} processes or threads` },
  file: { code: 'FILE_LIMIT', says: (limit) => `wrote a file of more than ${limit} bytes` },
};

/** The end of a command that used more than it may, with its output so far. */
function overLimit({ kind, ...details }: Exceeded, output: { stdout: string; stderr: string }): ToolError {
  const { code, says } = OVER[kind];
  return new ToolError(code, `the command ${says(details.limit)} and was ended`, {
    suggestion: 'Do less at once, or have the policy allow it more.',
    details: { ...details, ...output },
  });
}

function refuseProtected(path: string, shown: string): void {
  if (!isProtected(path)) return;
  throw new ToolError('ACCESS_DENIED', `\`${shown}\` is protected: programs outside the sandbox run or trust it`);
}

/** The whole content as it is at one time, as far as the file system lets one see that; a file that grows is cut off by the bound. */
function readAll({ fd, path, size }: { fd: number; path: string; size: number }, bytesMax: number): Buffer {
  const tooLarge = (used: number) =>
    new ToolError('FILE_LIMIT', `\`${path}\` is ${used} bytes; at most ${bytesMax} are read`, {
      suggestion: 'Search it, or take a part of it with a command.',
      details: { limit: bytesMax, used, enforcedBy: 'tool' },
    });
  if (size > bytesMax) throw tooLarge(size);
  // Files of /proc say 0 and hold more; one byte more than the size shows that a file grew.
  const chunks: Buffer[] = [];
  let total = 0;
  for (let want = size + 1; ; want = 64 * 1024) {
    const chunk = Buffer.allocUnsafe(want);
    const got = fs.readSync(fd, chunk, 0, want, total);
    if (got === 0) break;
    total += got;
    if (total > bytesMax) throw tooLarge(total);
    chunks.push(chunk.subarray(0, got));
    if (total === size && got < want) break;
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

const TYPES: [EntryType, (entry: fs.Dirent) => boolean][] = [
  ['file', (it) => it.isFile()],
  ['directory', (it) => it.isDirectory()],
  ['symlink', (it) => it.isSymbolicLink()],
];

function directoryAt(fd: number, path: string, isRefused: (path: string) => boolean): CheckedDirectory {
  return {
    path,
    entries: () =>
      fs
        .readdirSync(`/proc/self/fd/${fd}`, { withFileTypes: true })
        .map((entry) => ({ name: entry.name, type: TYPES.find(([, is]) => is(entry))?.[0] ?? 'other' })),
    stat: (name: string) => {
      const stat = fs.lstatSync(below(fd, name), { throwIfNoEntry: false });
      return stat && { size: stat.size, mode: modeOf(stat.mode), modifiedAt: stat.mtime.toISOString() };
    },
    directory: (name: string) => {
      const at = `${path}/${name}`;
      if (isRefused(at)) return undefined;
      try {
        return directoryAt(fs.openSync(below(fd, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW), at, isRefused);
      } catch (error) {
        if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES'].includes(codeOf(error) ?? '')) return undefined;
        throw toAccessError(error, at);
      }
    },
    [Symbol.dispose]: () => fs.closeSync(fd),
  } as CheckedDirectory;
}

interface Spot {
  readonly fd: number;
  readonly name: string;
  /** As the caller named it. */
  readonly path: string;
}

/** What a write would replace: nothing, or a regular file. */
function replaceable({ fd, name, path }: Spot): fs.Stats | undefined {
  const stat = fs.lstatSync(below(fd, name), { throwIfNoEntry: false });
  if (!stat || stat.isFile()) return stat;
  if (!stat.isSymbolicLink()) throw new ToolError('UNSUPPORTED', `\`${path}\` is not a regular file`);
  throw new ToolError('ACCESS_DENIED', `\`${path}\` is a symbolic link; it is not written through`, {
    suggestion: 'Write to the file that it points to.',
  });
}

function hashAt(fd: number, name: string, path: string, bytesMax: number): string | undefined {
  if (!replaceable({ fd, name, path })) return undefined;
  let file: number;
  try {
    file = fs.openSync(below(fd, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw codeOf(error) === 'ELOOP' ? outside(path) : toAccessError(error, path);
  }
  try {
    return hashOf(readAll({ fd: file, path, size: fs.fstatSync(file).size }, bytesMax));
  } finally {
    fs.closeSync(file);
  }
}

interface Replacing {
  readonly mode?: number;
  readonly overwrite: boolean;
  /** Throws where what is there is not what may be replaced. */
  assertSame(): void;
}

/** Temporary file in the same directory, fsync, rename: old or new, never half; hard links to the old content keep it. */
function replaceAt(spot: Spot, content: Uint8Array, options: Replacing): boolean {
  const { fd, name, path } = spot;
  const old = replaceable(spot);
  const exists = () => new ToolError('ALREADY_EXISTS', `\`${path}\` exists and overwrite is false`);
  if (old && !options.overwrite) throw exists();
  const temporary = below(fd, `.ringfence-${randomBytes(8).toString('hex')}.tmp`);
  try {
    writeNew(temporary, content, options.mode ?? (old ? old.mode & 0o777 : 0o644));
    // Last, so that no more than the rename itself stands between what was looked at and what is replaced.
    options.assertSame();
    if (options.overwrite) fs.renameSync(temporary, below(fd, name));
    else {
      fs.linkSync(temporary, below(fd, name)); // Fails where the name exists by now; a rename would replace it.
      fs.unlinkSync(temporary);
    }
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    if (error instanceof ToolError) throw error;
    // A mount stands there: the policy holds the name itself.
    if (codeOf(error) === 'EBUSY') throw new ToolError('SANDBOX_DENIED', `\`${path}\` is held in this sandbox`);
    throw codeOf(error) === 'EEXIST' ? exists() : toAccessError(error, path);
  }
  return old === undefined;
}

function writeNew(path: string, content: Uint8Array, mode: number): void {
  const fd = fs.openSync(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600);
  try {
    for (let at = 0; at < content.length; ) at += fs.writeSync(fd, content, at);
    fs.fchmodSync(fd, mode);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
