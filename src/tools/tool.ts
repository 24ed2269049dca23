/**
 * What a tool is, and all that it can reach. Architecture invariant: tool code reaches the machine only through
 * ToolContext, whose Checked values are made in workers/ and nowhere else.
 */
import * as z from 'zod';
import type { Effect, Tier } from '../call.ts';
import type { Code } from '../errors.ts';
import type { Limits } from '../limits.ts';

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
  /** Size, mode and time of one name in it, without following a link; undefined when it is gone. */
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
  /** Puts `content` there in one step, or leaves everything as it was. Throws ALREADY_EXISTS, FILE_LIMIT, CONFLICT. */
  replace(content: Uint8Array, options: { mode?: number; overwrite: boolean }): { created: boolean };
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

export interface ToolContext {
  /** Aborted when the call is cancelled or out of time. */
  readonly signal: AbortSignal;
  readonly limits: Limits;
  /** Opens a file to read it. Throws ACCESS_DENIED, SENSITIVE_FILE, NOT_FOUND, UNSUPPORTED. */
  open(path: string): CheckedFile;
  /** Opens a directory to list it. Throws ACCESS_DENIED, NOT_FOUND, UNSUPPORTED. */
  openDirectory(path: string): CheckedDirectory;
  /** Opens a directory, or one file, to search it. Throws ACCESS_DENIED, SENSITIVE_FILE, NOT_FOUND, UNSUPPORTED, FILE_LIMIT. */
  search(path: string): CheckedSearch;
  /** Runs `work`, which is synchronous, unless it takes longer than `boundedWorkMs`: then it is ended wherever it is. Throws CPU_LIMIT. */
  bounded<T>(work: () => T): T;
  /** Holds the place of a file to write. Throws ACCESS_DENIED, SENSITIVE_FILE, NOT_FOUND, UNSUPPORTED. */
  target(path: string, options: { createDirs: boolean }): CheckedTarget;
  /** Throws ACCESS_DENIED, NOT_FOUND, UNSUPPORTED for the directory. */
  command(request: { command: string; cwd: string; env: Record<string, string>; stdin?: string }): CheckedCommand;
  /** Runs a command to its end; its output is streamed to the caller meanwhile. Throws OUTPUT_LIMIT, SANDBOX_UNAVAILABLE. */
  run(command: CheckedCommand): Promise<CommandResult>;
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
  /** Those parameters as the tool's own. */
  toInput(input: Record<string, unknown>): Input;
}

export type Example<Input, Output> =
  | { readonly input: Input; readonly output: Partial<Output> }
  | { readonly input: Input; readonly error: Code };

export interface ToolSpec<I extends z.ZodObject, O extends z.ZodObject> {
  /** `group_verb`; the file is `src/tools/<group>/<verb>.ts`. */
  readonly name: string;
  readonly title: string;
  /** For the model: what it does and when to use it, then limits and defaults. */
  readonly summary: string;
  readonly version: string;
  readonly category: Category;
  readonly tier: Tier;
  /** What the call would touch; the policy decides on this. */
  effects(input: z.output<I>): Effect[];
  /** Whether it may change or remove what was there before; a hint for clients. What a policy asks about is a `delete` effect. */
  readonly destructive?: boolean;
  readonly idempotent?: boolean;
  readonly cacheable?: boolean;
  readonly retry?: Retry;
  /** Tools that it usually follows: in a batch, calls of it begin after those before them. */
  readonly dependencies?: readonly string[];
  /** Its own time limit, where the tier's is too long; `(input)` where a parameter narrows it. */
  timeoutMs?(input: z.output<I>): number | undefined;
  /** The command line that a call runs, for tools that run one; policies judge it by its programs and paths. */
  commandOf?(input: z.output<I>): { command: string; cwd: string; env: Readonly<Record<string, string>> };
  /** What the call is expected to cost, in US dollars; reserved before it runs. */
  estimateCostUsd?(input: z.output<I>): number;
  /** What a run would do to files, without doing it: runs in the read_only host, before a person is asked. */
  preview?(input: z.output<I>, context: ToolContext): Promise<Preview>;
  readonly input: I;
  readonly output: O;
  readonly examples: readonly Example<z.input<I>, z.output<O>>[];
  readonly aliases: readonly Alias<z.input<I>>[];
  run(input: z.output<I>, context: ToolContext): Promise<z.output<O>>;
}

/** What a call would change, and the content that it was judged by. */
export interface Preview {
  /** Unified diff; absent where none can be made. */
  diff?: string;
  /** Files that the call replaces or removes, as they are now; null where there is none. */
  preImages: { path: string; hash: string | null }[];
}

/** A tool whose shapes are not known here. */
export type Tool = ToolSpec<z.ZodObject, z.ZodObject>;

/** Declares a tool; the shapes of `effects`, `examples` and `run` follow from its two schemas. */
export function defineTool<I extends z.ZodObject, O extends z.ZodObject>(spec: ToolSpec<I, O>): ToolSpec<I, O> {
  return Object.freeze(spec);
}

const PATH_CHARS_MAX = 4096;

/** A path parameter: not empty, no NUL, at most as long as the kernel takes. Whether it may be touched is ToolContext's to say. */
export const workspacePath = (description: string) =>
  z
    .string()
    .min(1)
    .max(PATH_CHARS_MAX)
    .refine((path) => !path.includes('\0'), 'must not hold a NUL byte')
    .describe(description);
