/**
 * What a tool is, and all that it can reach. Architecture invariant: tool code reaches the machine only through
 * ToolContext, whose Checked values are made in workers/ and nowhere else.
 */
import * as z from 'zod';
import type { Effect, Tier } from '../call.ts';
import type { Code } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { PluginCode } from '../plugin-code.ts';
import type { Capability } from './capability.ts';
import type { FileChanges } from './file-changes.ts';
import type { Lifecycle } from './lifecycle.ts';
import type { Separable } from './separable.ts';
import type { Spellings } from './spellings.ts';
import type { Symbols } from './symbols.ts';
import type { Terminals } from './terminals.ts';
import type { Upstream } from './upstream.ts';

declare const checked: unique symbol;

/** A regular file below the workspace root, opened; every read goes to what was opened, whatever its name is now. */
export interface CheckedFile extends Disposable {
  readonly [checked]: 'file';
  /** Relative to the workspace root, as it was asked for. */
  readonly path: string;
  readonly size: number;
  /** Permission bits, octal, four digits. */
  readonly mode: string;
  readonly modifiedAt: string;
  /** The whole content. Throws FILE_LIMIT over `fileBytesMax`. */
  bytes(): Buffer;
}

export type EntryType = 'file' | 'directory' | 'symlink' | 'other';

/** A directory below the workspace root, opened. */
export interface CheckedDirectory extends Disposable {
  readonly [checked]: 'directory';
  readonly path: string;
  /** Names and types in it, unsorted; symbolic links are not followed. */
  entries(): { name: string; type: EntryType }[];
  /** Size, mode and time of one name in it, without following a link; undefined when it is gone. Throws ACCESS_DENIED. */
  stat(name: string): { size: number; mode: string; modifiedAt: string } | undefined;
  /** A directory in it; undefined when it is gone or no longer a directory. */
  directory(name: string): CheckedDirectory | undefined;
}

/** A place where a file may be written: its directory is held open, its name is one that may be written. */
export interface CheckedTarget extends Disposable {
  readonly [checked]: 'target';
  readonly path: string;
  /** SHA-256 of what is there now, as `hashOf` gives it; undefined when nothing is. */
  hash(): string | undefined;
  /**
   * Puts `content` there in one step, or leaves everything as it was. Throws ALREADY_EXISTS, FILE_LIMIT, and CONFLICT where
   * what is there is not `ifHash`.
   */
  replace(
    content: Uint8Array,
    options: { mode?: number; overwrite: boolean; ifHash?: string | undefined },
  ): { created: boolean };
}

/** A call to take back. */
export interface UndoRequest {
  /** Names what its journal kept. */
  readonly key: string;
  /** All that may be changed for it. */
  readonly paths: readonly string[];
  /** Whether what was changed since is lost, too. */
  readonly force: boolean;
}

export interface UndoOutcome {
  /** Paths that are as they were before the call. */
  readonly restored: string[];
  /** Restored paths that are gone again, because the call had made them. */
  readonly removed: string[];
  /** Paths that were changed since, or not kept; nothing is restored then, unless forced. */
  readonly conflicts: string[];
  /** Restored files in which changes made since were kept. */
  readonly merged: string[];
}

/** A command line with its directory and environment, ready to run in a sandbox of its own. */
export interface CheckedCommand {
  readonly [checked]: 'command';
}

/** Which files a search goes through. Hidden ones, and what .gitignore, .ignore and .rgignore leave out, are not among them. */
export interface SearchScope {
  /** Glob that files must match: with a `/` against the path from where the search begins, else against the name. A segment that begins with a dot finds hidden files too. */
  readonly include?: string | undefined;
  /** Globs of files and directories that are left out. */
  readonly exclude?: readonly string[] | undefined;
  /** Ending of the name, without the dot. */
  readonly extension?: string | undefined;
  /** Whether directories below are searched, too; they are when absent. */
  readonly recursive?: boolean;
}

/** A search for lines by a regular expression of Rust's syntax, or by a plain text. */
export interface ContentQuery extends SearchScope {
  readonly pattern: string;
  readonly literal: boolean;
  readonly caseSensitive: boolean;
}

export interface FoundLine {
  /** Relative to the workspace root. */
  file: string;
  line: number;
  /** Of the first match, counted from 1 in characters. */
  column: number;
  /** The line, cut around the match with `…` where it is long. */
  text: string;
  before?: string[];
  after?: string[];
}

/** A directory or file below the workspace root, opened to be gone through by ripgrep. Paths it gives are relative to the workspace root. */
export interface CheckedSearch extends Disposable {
  readonly [checked]: 'search';
  /** All files, in no order; `take` returns false when it has enough. Throws INPUT_INVALID, MEMORY_LIMIT. */
  files(scope: SearchScope, take: (path: string) => boolean): Promise<void>;
  /** Matches by file, in no order. Throws as `files` does. */
  counts(query: ContentQuery, take: (path: string, matches: number) => boolean): Promise<void>;
  /** Lines that match, by file and line; which ones are left out beyond `maxResults` is chance. Throws as `files` does. */
  lines(
    query: ContentQuery & { readonly contextLines: number; readonly maxResults: number },
  ): Promise<{ matches: FoundLine[]; filesSearched: number; truncated: boolean }>;
  /** Size and time of a path that it gave; undefined when it is gone. */
  stat(path: string): { size: number; modifiedMs: number } | undefined;
}

export interface CommandResult {
  /** Start and end of the stream; what is left out between them is named in the text. */
  stdout: string;
  stderr: string;
  /** 128 + n when signal n ended it, as shells report it. */
  exitCode: number;
  signal?: string;
  durationMs: number;
}

/** A program of the system with its very words; no shell looks at them. */
export interface ProgramRequest {
  readonly program: string;
  readonly args: readonly string[];
  /** Relative to the workspace root. */
  readonly cwd: string;
  /** Set beside PATH, HOME, LANG and TERM before it starts; the tool's own, never a caller's. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Output after which it is ended, both streams together. */
  readonly bytesMax: number;
}

export interface ProgramResult {
  /** From its start; all of it unless `cut`. */
  readonly stdout: Buffer;
  readonly stderr: string;
  /** 128 + n when signal n ended it; undefined where it was ended for its output. */
  readonly exitCode: number | undefined;
  readonly cut: boolean;
}

/** Name and address that a person's own git would commit with. */
export interface Identity {
  readonly name?: string;
  readonly email?: string;
}

/** What a policy is told of a command line. */
export interface CommandLine {
  readonly command: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Why more may happen than the text says, if so: then no rule may allow it. */
  readonly unknown?: string;
}

/** A command line as a tool asks for it. */
export interface CommandAsked {
  readonly command: string;
  readonly cwd: string;
  readonly env: Record<string, string>;
  readonly stdin?: string;
  /** Another shell than the bash that commands are run by; its positional parameters are `args`. */
  readonly shell?: 'bash' | 'sh' | 'zsh';
  readonly args?: readonly string[];
}

export interface ToolContext {
  /** Aborted when the call is cancelled or out of time. */
  readonly signal: AbortSignal;
  readonly limits: Limits;
  /**
   * Opens a file to read it. `declared` is what the tool's effects name, where that is a directory in which the file was
   * found. Throws ACCESS_DENIED, SENSITIVE_FILE, POLICY_DENIED, NOT_FOUND, UNSUPPORTED.
   */
  open(path: string, declared?: string): CheckedFile;
  /** Opens a directory to list it. Throws ACCESS_DENIED, NOT_FOUND, UNSUPPORTED. */
  openDirectory(path: string): CheckedDirectory;
  /** Opens a directory, or one file, to search it. Throws ACCESS_DENIED, SENSITIVE_FILE, NOT_FOUND, UNSUPPORTED, FILE_LIMIT. */
  search(path: string): CheckedSearch;
  /** Throws UNSUPPORTED where the program that searches is not installed, or does not run. */
  assertSearch(): Promise<void>;
  /** What its sources declare and refer to. */
  readonly symbols: Symbols;
  /** Runs `work`, which is synchronous, unless it takes longer than `boundedWorkMs`: then it is ended wherever it is. Throws CPU_LIMIT. */
  bounded<T>(work: () => T): T;
  /** Holds the place of a file to write. Throws ACCESS_DENIED, SENSITIVE_FILE, NOT_FOUND, UNSUPPORTED. */
  target(path: string, options: { createDirs: boolean }): CheckedTarget;
  readonly changes: FileChanges;
  /** Takes a call back: all of it or nothing. Throws CONFLICT, ACCESS_DENIED, SENSITIVE_FILE, POLICY_DENIED. */
  undo(request: UndoRequest): Promise<UndoOutcome>;
  /** Throws ACCESS_DENIED, NOT_FOUND, UNSUPPORTED for the directory, UNSUPPORTED for a shell that is not installed. */
  command(request: CommandAsked): CheckedCommand;
  /** Runs a command to its end; its output is streamed to the caller meanwhile. Throws OUTPUT_LIMIT, SANDBOX_UNAVAILABLE. */
  run(command: CheckedCommand): Promise<CommandResult>;
  /**
   * Runs a program to its end; what it writes goes to the tool alone. For tools that say `runsPrograms`. Throws UNSUPPORTED
   * where there is none of that name, and the code of the limit that ended it.
   */
  program(request: ProgramRequest): Promise<ProgramResult>;
  /**
   * Which paths, whether or not they exist, are to be left out of what is told of `path`: those that a rule refuses, or asks
   * about although it did not ask about `path`. Relative to the workspace root.
   */
  refusedBelow(path: string, kind?: 'read' | 'write'): (path: string) => boolean;
  /** Absolute, without links. */
  readonly workspace: string;
  /** What the calls of a tool with `state` keep of this workspace; undefined at first. What is set is kept if the call succeeds. */
  state: unknown;
  /** The person's; empty where nothing is known of it. */
  readonly identity: Identity;
  /** Those of the call's session. */
  readonly terminals: Terminals;
  /** Marks the result as cut: `bytesTotal` is what there was. */
  truncated(bytesTotal: number): void;
  /** Lets an abort arrive in the middle of long synchronous work. Throws the abort's reason. */
  breathe(): Promise<void>;
  hashOf(bytes: Uint8Array): string;
}

/** When and how a failed call is tried again; only recoverable failures are, and only where nothing can happen twice. */
export interface Retry {
  /** With the first one. */
  readonly maxAttempts: number;
  /** Before the second attempt; a random part of up to a half is taken off. */
  readonly backoffMs: number;
  /** Of the wait, from attempt to attempt. */
  readonly multiplier: number;
  readonly codes: readonly Code[];
}

export type Category =
  | 'filesystem'
  | 'code_analysis'
  | 'validation'
  | 'search'
  | 'api'
  | 'database'
  | 'service'
  | 'deployment'
  | 'development'
  | 'custom';

export interface Alias<Input> {
  readonly name: string;
  /** The parameters that go with this name. */
  readonly input: z.ZodObject;
  /** What else its parameters are called, before what the tool says of that. */
  readonly spellings?: Spellings;
  /** Those parameters as the tool's own. */
  toInput(input: Record<string, unknown>): Input;
}

export type Example<Input, Output> =
  | { readonly input: Input; readonly output: Partial<Output> }
  | { readonly input: Input; readonly error: Code };

/** A plugin's code and what it may have; a policy may only lower the bounds. */
export interface PluginSpec {
  readonly code: PluginCode;
  /** Names of the built-in tools that it may call. */
  readonly tools: readonly string[];
  readonly memoryMb: number;
  /** Infinity: what any program may take. */
  readonly cpuMs: number;
  readonly outputBytes: number;
}

export interface ToolSpec<I extends z.ZodObject, O extends z.ZodObject> extends Lifecycle {
  /** `group_verb`; the file is `src/tools/<group>/<verb>.ts`. */
  readonly name: string;
  readonly title: string;
  /** For the model: what it does and when to use it, then limits and defaults. */
  readonly summary: string;
  /** For the reference alone: what a model finds out by itself, or need not know. */
  readonly notes?: string;
  /** What it can do, at least one thing: for people and programs that look for a tool. */
  readonly capabilities: readonly Capability[];
  readonly version: string;
  readonly category: Category;
  /** The most that a call may need. */
  readonly tier: Tier;
  /** Of this very call, where that is less than the tool's: what the policy decides by, and what its programs may do. */
  tierOf?(input: z.output<I>): Tier;
  /**
   * Whether `run` starts programs. It then runs in the execute host, each program in a sandbox of its own, whatever its tier;
   * they see the workspace read-only where the call is read_only.
   */
  readonly runsPrograms?: boolean;
  /** What the call would touch; the policy decides on this. */
  effects(input: z.output<I>): Effect[];
  /** Present where each effect stands by itself, so that a call runs without those that the policy denies. */
  readonly separable?: Separable<z.output<I>, z.output<O>>;
  /** Whether it may change or remove what was there before; a hint for clients. What a policy asks about is a `delete` effect. */
  readonly destructive?: boolean;
  readonly idempotent?: boolean;
  readonly cacheable?: boolean;
  readonly retry?: Retry;
  /** Left out of the lists that models get, which are to stay short, unless all are asked for or a policy names it. */
  readonly isExtra?: boolean;
  /** Tools that it usually follows: in a batch, calls of it begin after those before them. */
  readonly dependencies?: readonly string[];
  /** Its own time limit, where the tier's is too long; `(input)` where a parameter narrows it. */
  timeoutMs?(input: z.output<I>): number | undefined;
  /**
   * What calls keep of a workspace from one to the next, by a name that tools may share. The gateway holds it where no sandbox
   * sees it, hands it over with the job and takes back what the schema, which bounds it, lets through: no tool's code runs there.
   */
  readonly state?: { readonly name: string; readonly schema: z.ZodType };
  /** The command line that a call runs, for tools that run one; policies judge it by its programs and paths. */
  commandOf?(input: z.output<I>): CommandLine | undefined;
  /** Whether a call is a program of the caller's, which runs in an isolate host and has no authority but tool calls. Its `run` is never called. */
  readonly isolated?: boolean;
  /** Whether a call is one HTTP request, which the egress process makes. Its `run` is never called. */
  readonly connects?: boolean;
  /** Of a tool that is a plugin's: what runs in its place, with no authority but tool calls. Its `run` is never called. */
  readonly plugin?: PluginSpec;
  /** Whether it keeps something in its host from one call to the next: it gets a host that only such tools use. */
  readonly keeps?: boolean;
  /** Of a tool that an external provider has: calls go there, and its `run` is never called. */
  readonly upstream?: Upstream;
  /** What the call is expected to cost, in US dollars; reserved before it runs. */
  estimateCostUsd?(input: z.output<I>): number;
  /** What a run would do to files, without doing it: runs in the read_only host, before a person is asked. */
  preview?(input: z.output<I>, context: ToolContext): Promise<Preview>;
  readonly input: I;
  readonly output: O;
  /** JSON Schemas that callers are shown, where they are not those of `input` and `output`. */
  readonly shown?: { readonly input: object; readonly output?: object };
  readonly examples: readonly Example<z.input<I>, z.output<O>>[];
  readonly aliases: readonly Alias<z.input<I>>[];
  /** Other names of its parameters and values, which no model is shown. */
  readonly spellings?: Spellings;
  run(input: z.output<I>, context: ToolContext): Promise<z.output<O>>;
}

/** What a call would change, and the content that it was judged by. */
export interface Preview {
  /** Unified diff; absent where none can be made. */
  diff?: string;
  /** Files that the call replaces or removes, as they are now; null where there is none. */
  preImages: { path: string; hash: string | null }[];
  /** Whether undo will keep all of it, of calls that delete; absent where the tool can't tell. */
  undo?: 'full' | 'none';
}

/** A tool whose shapes are not known here. */
export type Tool = ToolSpec<z.ZodObject, z.ZodObject>;

/** Declares a tool; the shapes of `effects`, `examples` and `run` follow from its two schemas. */
export function defineTool<I extends z.ZodObject, O extends z.ZodObject>(spec: ToolSpec<I, O>): ToolSpec<I, O> {
  return Object.freeze(spec);
}

/** The tier of one call; `input` is checked. */
export const tierOfCall = (tool: Tool, input: unknown): Tier => tool.tierOf?.(input as never) ?? tool.tier;

/** The tier of the host in which a call of that tier runs: programs are confined by execute hosts only. */
export const hostTierOf = ({ runsPrograms, keeps }: Pick<Tool, 'runsPrograms' | 'keeps'>, tier: Tier): Tier =>
  runsPrograms || keeps ? 'execute' : tier;

const PATH_CHARS_MAX = 4096;

/** A path parameter: not empty, no NUL, at most as long as the kernel takes. Whether it may be touched is ToolContext's to say. */
export const workspacePath = (description = 'In the workspace.') =>
  z
    .string()
    .min(1)
    .max(PATH_CHARS_MAX)
    .refine((path) => !path.includes('\0'), 'must not hold a NUL byte')
    .describe(description);
