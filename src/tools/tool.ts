/**
 * Defines what a tool is and all that it can reach. Architecture invariant: tool code reaches the machine only
 * through ToolContext, whose Checked values are made in workers/ and nowhere else.
 */

import type * as z from 'zod';
import type { Effect, Tier } from '../base/call.ts';
import type { Code } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { ArgumentParts } from '../policy/schema/arguments.ts';
import type { Capability, Category } from './capability.ts';
import type { ServiceTerms } from './connected.ts';
import type {
  CheckedCommand,
  CommandLine,
  CommandResult,
  CommandToRun,
  ProgramRequest,
  ProgramResult,
} from './context/commands.ts';
import type { KeptChanges } from './context/kept-changes.ts';
import type { ContextPart } from './context/part.ts';
import type { Prepared, Preview } from './context/preview.ts';
import type { RegistryKind, ServerRequest } from './context/requests.ts';
import type { ContentQuery, FoundInFiles, SearchScope } from './context/search.ts';
import type { UndoOutcome, UndoRequest } from './context/undo.ts';
import type { FileChanges } from './file-changes.ts';
import type { Health, SessionEnd } from './lifecycle.ts';
import { type Runs, runsInCommand } from './runs.ts';
import type { Separable } from './separable.ts';
import type { Checkers } from './source/checkers.ts';
import type { SourceCode } from './source/source-code.ts';
import type { Symbols } from './source/symbols.ts';
import type { Syntax } from './source/syntax.ts';
import type { TypeScript } from './source/typescript.ts';
import type { Spellings } from './spellings.ts';
import type { BackgroundCommands, Terminals } from './terminals.ts';
import type { Versioned } from './versions.ts';
import type { Summarized } from './web/summary.ts';

export type { CommandLine, CommandResult, CommandToRun, ProgramRequest, ProgramResult } from './context/commands.ts';
export type { Prepared, Preview } from './context/preview.ts';
export type { ContentQuery, FoundInFiles, FoundLine, SearchScope } from './context/search.ts';
export type { UndoOutcome, UndoRequest } from './context/undo.ts';
export { workspacePath } from './path-parameters.ts';

declare const checked: unique symbol;

/** An open regular file below the workspace root; reads go to the opened file, even if its name now means another. */
export interface CheckedFile extends Disposable {
  readonly [checked]: 'file';
  /** Path relative to the workspace root, as the caller wrote it. */
  readonly path: string;
  /** The same without links. */
  readonly realPath: string;
  readonly size: number;
  /** Permission bits, octal, four digits. */
  readonly mode: string;
  readonly modifiedAt: string;
  /** The whole content. Throws FILE_LIMIT over `fileBytesMax`. */
  bytes(): Buffer;
  /** Lines of a file of any size, with what is told of the whole file. Throws FILE_LIMIT if they are over `fileBytesMax`. */
  range(first: number, last: number): Promise<{ bytes: Buffer; lines: number; hash: string }>;
}

export type EntryType = 'file' | 'directory' | 'symlink' | 'other';

/** An open directory below the workspace root. */
export interface CheckedDirectory extends Disposable {
  readonly [checked]: 'directory';
  readonly path: string;
  /** Names and types of the entries, unsorted; does not follow symbolic links. */
  entries(): { name: string; type: EntryType }[];
  /** Size, mode and time of an entry, without following a link; undefined if it is gone. Throws ACCESS_DENIED. */
  stat(name: string): { size: number; mode: string; modifiedAt: string } | undefined;
  /** Opens a subdirectory; undefined if it is gone or no longer a directory. */
  directory(name: string): CheckedDirectory | undefined;
}

/** A file name that may be written; its directory is held open. */
export interface CheckedTarget extends Disposable {
  readonly [checked]: 'target';
  readonly path: string;
  /** SHA-256 of the present content, as `hashOf` gives it; undefined if there is no file. */
  hash(): string | undefined;
  /** Writes `content` in one step or changes nothing. Throws ALREADY_EXISTS, FILE_LIMIT, CONFLICT if the content is not `ifHash`. */
  replace(
    content: Uint8Array,
    options: { mode?: number; overwrite: boolean; ifHash?: string | undefined },
  ): { created: boolean };
}

/** An open directory or file below the workspace root for ripgrep to search. All paths it gives are relative to the workspace root. */
export interface CheckedSearch extends Disposable {
  readonly [checked]: 'search';
  /**
   * Passes all files to `take`, in no order, until it returns false; gives the number of folders that lie too deep to be
   * opened. Throws INPUT_INVALID, MEMORY_LIMIT.
   */
  files(scope: SearchScope, take: (path: string) => boolean): Promise<{ tooDeep: number }>;
  /** Passes the number of matches of each file to `take`, in no order. Throws as `files` does. */
  counts(query: ContentQuery, take: (path: string, matches: number) => boolean): Promise<void>;
  /** Matching lines, sorted by file and line; beyond `maxResults`, which lines are left out is undefined. Throws as `files` does. */
  lines(query: ContentQuery & { readonly contextLines: number; readonly maxResults: number }): Promise<FoundInFiles>;
  /** Size and time of a path that the search gave; undefined if it is gone. */
  stat(path: string): { size: number; modifiedMs: number } | undefined;
}

/** The name and address that the person's own git would commit with. */
export interface CommitIdentity {
  readonly name?: string | undefined;
  readonly email?: string | undefined;
}

/** What a call is told of work that takes too long. */
export interface BoundedWork {
  readonly what: string;
  readonly suggestion?: string;
}

export interface ToolContext {
  /** Aborted if the call is cancelled or out of time. */
  readonly signal: AbortSignal;
  readonly limits: Limits;
  /**
   * Opens a file for reading. `declared` is the target of the tool's effect, if that is a directory in which the file
   * was found. Throws ACCESS_DENIED, SENSITIVE_FILE, POLICY_DENIED, NOT_FOUND, UNSUPPORTED.
   */
  open(path: string, declared?: string): CheckedFile;
  /** Opens a directory for listing. Throws ACCESS_DENIED, NOT_FOUND, UNSUPPORTED. */
  openDirectory(path: string): CheckedDirectory;
  /** Opens a directory or one file for searching. Throws ACCESS_DENIED, SENSITIVE_FILE, NOT_FOUND, UNSUPPORTED, FILE_LIMIT. */
  search(path: string): CheckedSearch;
  /** Throws UNSUPPORTED if ripgrep is not installed or does not run. */
  assertSearch(): Promise<void>;
  /** The symbols of the workspace's sources. */
  readonly symbols: Symbols;
  readonly code: SourceCode;
  /** The syntax trees of source texts. A call takes it once: each one allows a few crashes of the parser. */
  readonly syntax: Syntax;
  /** TypeScript's checker, in read_only hosts. */
  readonly typescript: TypeScript;
  /** The built-in linter and formatter. */
  readonly checkers: Checkers;
  /** A part that a capability brings. Throws SANDBOX_DENIED where hosts of this tier lack it. */
  use<T>(part: ContextPart<T>): T;
  /** Runs synchronous work, and interrupts it after `boundedWorkMs`. Throws CPU_LIMIT. */
  bounded<T>(work: () => T, about?: BoundedWork): T;
  /**
   * Opens the directory of a file for writing. `declared` is the target of the tool's effect, if that leads to `path`.
   * Throws ACCESS_DENIED, SENSITIVE_FILE, NOT_FOUND, UNSUPPORTED.
   */
  target(path: string, options: { createDirs: boolean; declared?: string }): CheckedTarget;
  readonly changes: FileChanges;
  /** Undoes a call, all of it or nothing. Throws CONFLICT, ACCESS_DENIED, SENSITIVE_FILE, POLICY_DENIED. */
  undo(request: UndoRequest): Promise<UndoOutcome>;
  /** The preview that the call is about. Throws UNSUPPORTED if it is about none. */
  readonly kept: KeptChanges;
  /** Checks a command. Throws ACCESS_DENIED, NOT_FOUND, UNSUPPORTED for the directory, UNSUPPORTED for a shell that is not installed. */
  command(request: CommandToRun): CheckedCommand;
  /** Runs a command to its end, and streams its output to the caller. Throws OUTPUT_LIMIT, SANDBOX_UNAVAILABLE. */
  run(command: CheckedCommand): Promise<CommandResult>;
  /**
   * Runs a program for a tool with `runsPrograms`; only the tool sees its output. Throws UNSUPPORTED if it is
   * missing, or a limit's code.
   */
  program(request: ProgramRequest): Promise<ProgramResult>;
  /**
   * A test for paths, existing or not, that must be left out of what is reported about `path`: those that a rule
   * denies, or asks about although it did not ask about `path`. Paths are relative to the workspace root.
   */
  refusedBelow(path: string, kind?: 'read' | 'write'): (path: string) => boolean;
  /** Absolute path without links. */
  readonly workspace: string;
  /** The result of the tool's `plan`, or the answers to its `requests`. */
  readonly planned: unknown;
  /** What a tool with `state` keeps for this workspace; undefined at first. A new value is kept if the call succeeds. */
  state: unknown;
  /** The person's git identity; empty if unknown. */
  readonly identity: CommitIdentity;
  /** Whether a commit of the call may be signed. */
  readonly signs: boolean;
  /** The terminals of the call's session. */
  readonly terminals: Terminals;
  /** The commands that the call's session has in the background. */
  readonly background: BackgroundCommands;
  /** Marks the result as cut; `bytesTotal` is its full size. */
  truncated(bytesTotal: number): void;
  /** Yields, so that an abort can arrive during long synchronous work. Throws the abort's reason. */
  breathe(): Promise<void>;
  hashOf(bytes: Uint8Array): string;
}

export interface Alias {
  readonly name: string;
  /** The parameters of this name. */
  readonly input: z.ZodObject;
  /** Other names of its parameters; they take precedence over the tool's. */
  readonly spellings?: Spellings;
  /** Converts these parameters to the tool's own, which the tool's shape then checks and completes. Absent where they are the same. */
  toInput?(input: Record<string, unknown>): unknown;
}

export type Example<Input, Output> =
  | { readonly input: Input; readonly output: Partial<Output> }
  | { readonly input: Input; readonly error: Code };

/** A property of all calls of a tool, or of each by its checked input. */
export type PerCall<Input> = boolean | ((input: Input) => boolean);

interface Tiers<Input> {
  /** The tier of one call, if lower than the tool's: the policy decides by it, and the call's programs are confined by it. */
  of(input: Input): Tier;
  /** The lowest of these tiers, if lists are to show the tool to callers who may make no other calls of it. */
  readonly least?: Tier;
}

interface Before<Input> {
  /**
   * Other forms of the input, by what the workspace holds, the best first. The first one that the policy allows without
   * a question replaces the input; if it allows none, the last one does. Runs in the read_only host, before the policy
   * decides, and is not asked about calls that the policy denies.
   */
  resolve?(input: Input, context: ToolContext): Promise<Input[]>;
  /** For a tool that a service runs: completes a call that names no repository by the workspace's own. */
  readonly remote?: {
    isNeeded(input: Input): boolean;
    /** Gives the input with what the remote says; the input itself if it is no repository of the service. */
    complete(input: Input, remote: { readonly url: string; readonly branch?: string | undefined }): Input;
  };
  /**
   * Work before `run` in the read_only host, which has the language servers and can change nothing; `run` gets the
   * result as `ctx.planned`, and checks it. Not called for read_only calls.
   */
  plan?(input: Input, context: ToolContext): Promise<unknown>;
  /**
   * HTTP requests whose answers `run` gets as `ctx.planned`, a list of AnsweredRequest. Called in the read_only host,
   * where `run` is called, too, for external_api calls only; each destination is a `connect` effect of the call.
   */
  requests?(input: Input, context: ToolContext): Promise<ServerRequest[]>;
  /**
   * Work before a person is asked, by commands that see the workspace read-only: gives what the person is shown, and what `run` gets
   * as `ctx.planned`. Called once a call; no plan is shown and then made again.
   */
  prepare?(input: Input, context: ToolContext): Promise<Prepared>;
  /** The package registry of the settings that its commands may connect to, if the policy lists it, and to nothing else. */
  registryOf?(input: Input): RegistryKind;
}

/** What tools of connectors, plugins and providers say beside what built-in ones do. */
interface AddedTerms extends ServiceTerms, Versioned {
  /** Estimated cost of a call in US dollars; reserved before it runs. */
  readonly estimateCostUsd?: ((input: never) => number) | undefined;
  /** JSON Schemas for callers, if not those of `input` and `output`. */
  readonly shown?: { readonly input: object; readonly output?: object };
}

export interface ToolSpec<I extends z.ZodObject, O extends z.ZodObject> extends Lifecycle, AddedTerms {
  /** `group_verb`; the file is `src/tools/<group>/<verb>.ts`. */
  readonly name: string;
  readonly title: string;
  /** For the model: what the tool does and when to use it, then limits and defaults. */
  readonly summary: string;
  /** For the reference only: what a model can find out itself, or need not know. */
  readonly notes?: string;
  /** What the tool can do, for people and programs that look for a tool; at least one. */
  readonly capabilities: readonly Capability[];
  readonly category: Category;
  /** The highest tier that a call may need. */
  readonly tier: Tier;
  /** Present if calls differ in their tier. */
  readonly tiers?: Tiers<z.output<I>>;
  /** How a call is carried out; absent for `{ in: 'host' }`. */
  readonly runs?: Runs<I, O>;
  /** What the call would touch; the policy decides on these effects. */
  effects(input: z.output<I>): Effect[];
  /** Present if the effects are independent, so that a call can run without those that the policy denies. */
  readonly separable?: Separable<z.output<I>, z.output<O>>;
  /**
   * Whether it may change or remove existing content; a hint for clients. Policies ask about `delete` effects instead, of which each of
   * its calls has one if it `deletes`.
   */
  readonly destructive?: boolean | 'deletes';
  /** Whether strangers write its results, which may hold instructions to a model: MCP clients get them in an envelope, and policies know of them. */
  readonly untrusted?: boolean;
  /** Whether a call may be repeated: always, or as a call says. */
  readonly idempotent?: PerCall<z.output<I>>;
  /** Further attempts after the answer of a busy server, where the caller says none, and nothing can happen twice. */
  readonly retries?: number;
  readonly cacheable?: boolean;
  /** Parameters whose values the audit log leaves out: they may hold data of people in any form. */
  readonly unrecorded?: readonly string[];
  /** Whether the lists for models leave the tool out, to stay short, unless all tools are asked for or a policy names it. */
  readonly isExtra?: boolean;
  /** Tools that usually run before this one: in a batch, calls of this tool begin after earlier calls of those. */
  readonly dependencies?: readonly string[];
  /** Time limit in ms, if lower than the tier's; may depend on the input. */
  timeoutMs?(input: z.output<I>): number | undefined;
  /**
   * State that calls keep for a workspace, under a name that tools may share. The gateway stores it out of any
   * sandbox's reach, sends it with the job, and takes back what the schema accepts, which bounds it; no tool code
   * runs there.
   */
  readonly state?: { readonly name: string; readonly schema: z.ZodType };
  /** The command line that a call runs, if it runs one; policies judge its programs and paths. */
  commandOf?(input: z.output<I>): CommandLine | undefined;
  /** Whether a person is asked about calls that the policy allows: about each, or as a call says. */
  readonly asks?: PerCall<z.output<I>>;
  /** How arguments are rewritten before they are judged, as the settings of a provider or the manifest of a plugin say. */
  readonly narrows?: ArgumentParts | undefined;
  /** Names of tools whose rules count for a call beside its own, and which its session has to have. */
  judgedAs?(input: z.output<I>): readonly string[];
  /** What a model is asked about the result, if a call wants that: its answer becomes `summary`. */
  summarized?(input: z.output<I>, data: z.output<O>): Summarized<z.output<O>> | undefined;
  /** Work before `run`, in other hosts than its. */
  readonly before?: Before<z.output<I>>;
  /** Computes what a run would do to files without doing it. Runs in the read_only host, before a person is asked. */
  preview?(input: z.output<I>, context: ToolContext): Promise<Preview>;
  readonly input: I;
  readonly output: O;
  readonly examples: readonly Example<z.input<I>, z.output<O>>[];
  readonly aliases: readonly Alias[];
  /** Other names of parameters and values; no model is shown them. */
  readonly spellings?: Spellings;
  /** Carries out a call in a host; absent if a runner of the gateway does (`runs`). */
  run?(input: z.output<I>, context: ToolContext): Promise<z.output<O>>;
}

/** A tool of any shape. */
export type Tool = ToolSpec<z.ZodObject, z.ZodObject>;

/** A tool under the name that the caller used. */
export interface NamedTool {
  readonly tool: Tool;
  /** Checks the parameters of that name, and gives those of the tool; `tell` gets warnings about them. Throws ZodError. */
  parse(input: unknown, tell?: (warning: string) => void): unknown;
  /** Warnings about parameters that are accepted but have no effect. */
  warnings?(input: unknown): string[];
  /** The parameters of that name, for suggestions. */
  readonly parameters: readonly string[];
  /** The TypeScript form of a parameter; undefined if it is just a text or a list of texts. */
  shapeOf?(parameter: string): string | undefined;
}

/** Tools by name; a call can name only tools that its session was given. */
export type Toolset = ReadonlyMap<string, NamedTool>;

/** What most tools say alike. */
const USUAL = { version: '1.0.0', examples: [], aliases: [] };

/** Declares a tool; its two schemas determine the types of `effects`, `examples` and `run`. */
export const defineTool = <I extends z.ZodObject, O extends z.ZodObject>(
  spec: Omit<ToolSpec<I, O>, keyof typeof USUAL> & Partial<ToolSpec<I, O>>,
): ToolSpec<I, O> => Object.freeze({ ...USUAL, ...spec });

/** The tier of one call; `input` is checked. */
export const tierOfCall = (tool: Tool, input: unknown): Tier => tool.tiers?.of(input as never) ?? tool.tier;

/** Whether a property holds for a call; `input` is checked. */
export const holdsFor = (property: PerCall<never> | undefined, input: unknown): boolean =>
  typeof property === 'function' ? property(input as never) : property === true;

/** The tier of the host in which a call of `tier` runs: only execute hosts confine programs. */
export const hostTierOf = (tool: Pick<Tool, 'runs'>, tier: Tier): Tier => (runsInCommand(tool) ? 'execute' : tier);

/** A function that several tools share runs once for all of them. */
export interface Lifecycle {
  /**
   * Runs in a worker thread before the tool's first call there. If it throws, the call fails with that error, and the
   * next call tries again.
   */
  initialize?(context: ToolContext): Promise<void>;
  /** Runs in the host of the tool's calls when an operator asks for tool health. A thrown ToolError counts as bad health. */
  healthCheck?(context: ToolContext): Promise<Health>;
  /** Releases what calls of a session left in their host; for tools with `keeps`. */
  cleanup?(session: SessionEnd): Promise<void>;
}
