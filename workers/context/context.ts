/** Builds the ToolContext of one job. Architecture invariant: only workers/ makes Checked values, for this context. */
import * as fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { closing } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { isProtected } from '../../src/base/paths.ts';
import type { PreviewReport } from '../../src/base/preview.ts';
import type { JobUsage } from '../../src/hosts/job.ts';
import type { CommandRequest } from '../../src/sandbox/command/request.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import type { Identity } from '../../src/sandbox/git/commit-author.ts';
import { ancestorsOf } from '../../src/sandbox/masks.ts';
import type { CheckedCommand } from '../../src/tools/context/commands.ts';
import type { KeptChanges } from '../../src/tools/context/kept-changes.ts';
import type { ContextPart } from '../../src/tools/context/part.ts';
import type { UndoOutcome, UndoRequest } from '../../src/tools/context/undo.ts';
import type { FileChanges } from '../../src/tools/file-changes.ts';
import type { Checkers } from '../../src/tools/source/checkers.ts';
import type { SourceCode } from '../../src/tools/source/source-code.ts';
import type { Symbols } from '../../src/tools/source/symbols.ts';
import type { Syntax } from '../../src/tools/source/syntax.ts';
import type { TypeScript } from '../../src/tools/source/typescript.ts';
import type { BackgroundCommands, KeptPrograms, Terminals } from '../../src/tools/terminals.ts';
import type {
  BoundedWork,
  CheckedDirectory,
  CheckedFile,
  CheckedSearch,
  CheckedTarget,
  CommandResult,
  CommandToRun,
  ProgramRequest,
  ProgramResult,
  ToolContext,
} from '../../src/tools/tool.ts';
import { withinTime } from '../bounded.ts';
import { WorkspaceCheckers } from '../code/checkers.ts';
import { WorkspaceSyntax } from '../code/syntax.ts';
import { WorkspaceCode } from '../code/workspace-code.ts';
import { KeptPreview } from '../preview/kept-preview.ts';
import { reportOf } from '../preview/report.ts';
import { Ripgrep } from '../search/ripgrep.ts';
import { searchAt } from '../search/search.ts';
import type { LanguageServers } from '../symbols/language-servers.ts';
import { WorkspaceSymbols, type WorkspaceSymbolsOptions } from '../symbols/symbols.ts';
import { TypeChecker } from '../symbols/type-checker.ts';
import { toArgv, toReportingArgv } from '../terminals/shells.ts';
import { Changes, NO_RECORDER } from '../undo/changes.ts';
import { Journal, type JournalLocation } from '../undo/journal.ts';
import { Spool } from '../undo/spool.ts';
import { TreeChanges } from '../undo/tree-changes.ts';
import type { UndoParts } from '../undo/undo.ts';
import { entriesOf, rollBackCall, undoAll, undoParts } from '../undo/undo-calls.ts';
import { Commands } from './commands.ts';
import type { ContextOptions } from './context-options.ts';
import { directoryAt, fileAt, hashOf } from './files.ts';
import { HeldPaths } from './held-paths.ts';
import { PathRules } from './path-rules.ts';
import { targetAt } from './targets.ts';
import { toWithheld } from './withheld.ts';
import { Witnesses } from './witnesses.ts';

export class WorkerContext implements ToolContext {
  readonly signal: AbortSignal;
  readonly limits: Limits;
  readonly workspace: string;
  state: unknown;
  readonly planned: unknown;
  readonly identity: Identity;
  readonly signs: boolean;
  readonly hashOf = hashOf;
  readonly changes: FileChanges;
  readonly #options: ContextOptions;
  readonly #rules: PathRules;
  readonly #changes: Changes;
  readonly #trees: TreeChanges;
  readonly #journal: Journal | undefined;
  readonly #paths: HeldPaths;
  readonly #commands: Commands;
  readonly #witnesses: Witnesses;
  readonly #kept: KeptPrograms | undefined;
  #truncatedBytes = 0;

  constructor(options: ContextOptions) {
    this.#options = options;
    this.#rules = new PathRules(options.view, options.workspace, options.limits);
    this.signal = options.signal;
    this.limits = options.limits;
    this.#journal = options.journal && new Journal(options.journal, options.limits);
    this.#changes = new Changes(options.recorder ?? this.#journal ?? NO_RECORDER, options.powers);
    this.#paths = new HeldPaths({
      anchor: options.anchor,
      rules: this.#rules,
      changes: this.#changes,
      readOnly: options.readOnly === true,
      lifted: options.lifted,
    });
    this.#trees = new TreeChanges({
      paths: this.#paths,
      changes: this.#changes,
      limits: options.limits,
      breathe: () => this.breathe(),
      preImages: options.preImages,
    });
    this.changes = this.#trees;
    this.workspace = options.workspace;
    this.state = options.state;
    this.planned = options.planned;
    this.identity = options.identity ?? {};
    this.signs = options.signs === true;
    this.#witnesses = new Witnesses(options.limits.cacheWitnessesMax, () => options.powers.now());
    this.#commands = new Commands({
      ...options,
      toWithheld: (masks, ended) => toWithheld(masks, this.#rules, ended),
      truncated: (bytesTotal) => this.truncated(bytesTotal),
    });
    this.#kept = options.kept?.((outcomes) => this.#commands.tookOver(outcomes));
  }

  /** What the job used and changed, for its result; `threadCpuMs` is its share of the thread's CPU time. */
  usage(threadCpuMs: number): JobUsage {
    const witnesses = this.#witnesses.all;
    const { noted } = this.#changes;
    const { filesChangedMax } = this.limits;
    return {
      ...this.#commands.used,
      cpuMs: this.#commands.used.cpuMs + threadCpuMs,
      enforcedBy: this.#commands.enforcedBy,
      ...(this.#truncatedBytes > 0 && { truncatedBytes: this.#truncatedBytes }),
      ...(noted.length > 0 && { filesChanged: noted.slice(0, filesChangedMax) }),
      ...(noted.length > filesChangedMax && { filesChangedTotal: noted.length }),
      witnesses,
    };
  }

  /** Ends the journal; gives what the job kept for its undo. */
  endJournal(): JobUsage['journal'] {
    using journal = this.#journal;
    return journal?.end(this.#changes.noted);
  }

  async undo({ keys, paths, force }: UndoRequest): Promise<UndoOutcome> {
    const { journal } = this.#options;
    if (!journal || !this.#journal) throw new ToolError('UNSUPPORTED', 'nothing is journalled here');
    const calls = keys.map((key) => entriesOf(new Spool(journal.folder, key), paths));
    return this.#wholly(async () => {
      const outcome = await undoAll(calls, this.#undoParts, force);
      if (calls.length > 1 && outcome.conflicts.length > 0 && !force) await this.#takeBack(journal);
      return outcome;
    });
  }

  get kept(): KeptChanges {
    const { keptPreview } = this.#options;
    if (keptPreview === undefined) throw new ToolError('UNSUPPORTED', 'this call is about no preview');
    const open = (path: string) => this.open(path);
    return new KeptPreview(keptPreview, { ...this.#undoParts, open, wholly: (work) => this.#wholly(work) });
  }

  /** What the commands of the job did in its overlay; undefined if it has none. */
  async previewReport(): Promise<PreviewReport | undefined> {
    const { overlay, anchor, limits } = this.#options;
    if (!overlay) return undefined;
    const { fd: lower } = anchor.open('.');
    using _ = closing(lower);
    return await reportOf(overlay, {
      limits,
      lower,
      named: (path) => this.#rules.named(path),
      isRefused: this.refusedBelow('.'),
      open: (path) => this.open(path),
      breathe: () => this.breathe(),
    });
  }

  /** Runs changes of which all or none stay. */
  async #wholly<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const { journal } = this.#options;
      if (journal) await this.#takeBack(journal);
      throw error;
    }
  }

  /** Takes back what this job changed, without a journal and without the job's signal: nothing may stay half done. */
  async #takeBack({ folder, key }: JournalLocation): Promise<void> {
    const plain = new WorkerContext({ ...withoutJournal(this.#options), signal: new AbortController().signal });
    if (this.#changes.noted.length > 0) await plain.rollBack(new Spool(folder, key));
    this.#changes.forget();
  }

  /** Rolls back a call that was cut off, except where something else changed since. */
  rollBack(spool: Spool): Promise<void> {
    return rollBackCall(spool, this.#undoParts);
  }

  get #ripgrep(): Ripgrep {
    const { ripgrep, powers } = this.#options;
    return ripgrep ?? new Ripgrep(this.limits, powers);
  }

  get #undoParts(): UndoParts {
    const parts = { rules: this.#rules, changes: this.#changes, breathe: () => this.breathe() };
    return undoParts({ ...this.#options, ...parts });
  }

  open(path: string, declared?: string): CheckedFile {
    const { anchor, workspace } = this.#options;
    anchor.assertInside(path);
    if (declared !== undefined) this.#rules.checkInside('read', declared, path);
    return fileAt(
      this.#rules.open(path, () => anchor.open(path)),
      path,
      { workspace, bytesMax: this.limits.fileBytesMax, witnesses: this.#witnesses, breathe: () => this.breathe() },
    );
  }

  openDirectory(path: string): CheckedDirectory {
    const { anchor } = this.#options;
    anchor.assertInside(path);
    const { fd } = this.#rules.open(path, () => anchor.open(path));
    const rest = { isRefused: this.#rules.refusedBelow(path), witnesses: this.#witnesses };
    if (fs.fstatSync(fd).isDirectory()) return directoryAt(fd, path, rest);
    fs.closeSync(fd);
    throw new ToolError('UNSUPPORTED', `\`${path}\` is not a directory`, { suggestion: 'Read it with file_read.' });
  }

  search(path: string): CheckedSearch {
    const { anchor, workspace } = this.#options;
    anchor.assertInside(path);
    const opened = this.#rules.open(path, () => anchor.open(path));
    // ripgrep does not report everything that it looked at.
    this.#witnesses.giveUp();
    return searchAt({
      opened,
      path,
      workspace,
      rules: this.#rules,
      ripgrep: this.#ripgrep,
      limits: this.limits,
      signal: this.signal,
    });
  }

  assertSearch(): Promise<void> {
    return this.#ripgrep.check(this.signal);
  }

  get symbols(): Symbols {
    return new WorkspaceSymbols(this.#sources);
  }

  get code(): SourceCode {
    return new WorkspaceCode({ ...this.#sources, breathe: () => this.breathe() });
  }

  get typescript(): TypeScript {
    // The compiler does not report everything that it read.
    this.#witnesses.giveUp();
    const isRefused = this.refusedBelow('.');
    return new TypeChecker({ ...this.#sources, isRefused, isWriteRefused: this.refusedBelow('.', 'write') });
  }

  get #sources(): WorkspaceSymbolsOptions {
    const { workspace, limits, signal } = this.#options;
    const search = (path: string) => this.search(path);
    return { workspace, servers: this.#servers, limits, signal, search, open: (...of) => this.open(...of) };
  }

  get #servers(): LanguageServers {
    const { servers } = this.#options;
    if (!servers) throw new ToolError('SANDBOX_DENIED', 'this tier has no language servers');
    return servers;
  }

  get syntax(): Syntax {
    const { limits, signal } = this.#options;
    return new WorkspaceSyntax(this.#servers.parser, limits, signal);
  }

  get checkers(): Checkers {
    const { limits, powers, signal, servers } = this.#options;
    if (!servers) throw new ToolError('SANDBOX_DENIED', 'this tier has no linter and no formatter');
    return new WorkspaceCheckers({ limits, powers, signal });
  }

  use<T>(part: ContextPart<T>): T {
    const make = this.#options.parts?.get(part);
    if (!make) throw new ToolError('SANDBOX_DENIED', `this tier has no ${part.name}`);
    const own = { rules: this.#rules, paths: this.#paths, changes: this.#changes, files: this.#trees };
    return make({ ...this.#options, ...own }) as T;
  }

  bounded<T>(work: () => T, about?: BoundedWork): T {
    return withinTime(work, this.limits.boundedWorkMs, about);
  }

  target(path: string, options: { createDirs: boolean; declared?: string }): CheckedTarget {
    return targetAt(this.#paths.hold(path, { kinds: ['write'], ...options }), {
      changes: this.#changes,
      bytesMax: this.limits.fileBytesMax,
      preImages: this.#options.preImages,
    });
  }

  command({ shell, args, report, until, offline = false, ...request }: CommandToRun): CheckedCommand {
    const { workspace, anchor, masks, bounds, readOnly = false } = this.#options;
    const signal = until ? AbortSignal.any([this.signal, until]) : this.signal;
    const { egressToken, services, home, sockets, overlay, onOutput } = this.#options;
    anchor.assertInside(request.cwd);
    const { fd, realPath: cwd } = this.#rules.open(request.cwd, () => anchor.open(request.cwd));
    using _ = closing(fd);
    if (!fs.fstatSync(fd).isDirectory())
      throw new ToolError('UNSUPPORTED', `cwd \`${request.cwd}\` is not a directory`);
    const given = { workspace, masks, bounds, signal, readOnly, home, sockets, overlay, onOutput };
    const egress = offline ? {} : { egressToken, services };
    const argv = request.image?.argv ?? (shell && toArgv(shell, request.command, args));
    const reporting = report !== undefined && this.#reporting(report, request.command);
    return { ...request, ...given, ...egress, cwd, argv, ...reporting } as unknown as CheckedCommand;
  }

  #reporting(report: string, command: string): Partial<CommandRequest> {
    const { commandReportBytes, commandOutputBytesMax } = this.limits;
    const capture = { captureBytes: commandReportBytes, outputBytesMax: commandOutputBytesMax };
    return report === '-' ? capture : { ...capture, argv: toReportingArgv(command, report, commandReportBytes) };
  }

  run(command: CheckedCommand): Promise<CommandResult> {
    return this.#commands.run(command as unknown as CommandRequest);
  }

  program({ program, args, bytesMax, ...request }: ProgramRequest): Promise<ProgramResult> {
    const path = findProgram(program);
    if (path === undefined) {
      const suggestion = `Install ${program} where the daemon runs.`;
      throw new ToolError('UNSUPPORTED', `${program} is not installed on this machine`, { suggestion });
    }
    const checked = this.command({ ...request, env: { ...request.env }, command: program });
    const { onOutput: _, sockets: __, ...rest } = checked as unknown as CommandRequest;
    return this.#commands.program({ ...rest, asOwner: true, argv: [path, ...args], captureBytes: bytesMax });
  }

  refusedBelow(path: string, kind: 'read' | 'write' = 'read'): (path: string) => boolean {
    const byRule = this.#rules.refusedBelow(path, kind);
    const hidden = new Set(this.#options.masks.hidden.map((it) => it.path));
    return (it) =>
      byRule(it) ||
      (kind === 'write' && isProtected(this.#rules.named(it))) ||
      [it, ...ancestorsOf(it)].some((path) => hidden.has(path));
  }

  get terminals(): Terminals {
    if (!this.#kept) throw new ToolError('SANDBOX_DENIED', 'this tier has no terminals');
    return this.#kept.terminals;
  }

  get background(): BackgroundCommands {
    if (!this.#kept) throw new ToolError('SANDBOX_DENIED', 'this tier has no commands in the background');
    return this.#kept.background;
  }

  truncated(bytesTotal: number): void {
    this.#truncatedBytes = Math.max(this.#truncatedBytes, bytesTotal);
  }

  async breathe(): Promise<void> {
    await setImmediate();
    this.signal.throwIfAborted();
  }
}

function withoutJournal({ journal: _, ...rest }: ContextOptions): ContextOptions {
  return rest;
}
