/** How the calls of a tool are carried out: by the tool's `run` in a host, or by a runner of the gateway, which then needs no `run`. */
import type * as z from 'zod';
import type { PluginCode } from '../base/plugin-code.ts';
import type { ListedTool } from './capability.ts';
import type { Connected } from './connected.ts';
import type { ImageProgram } from './context/commands.ts';
import type { DatabaseRequest, ServerAnswer } from './context/databases.ts';
import type { FetchedPage, PageReader } from './context/page.ts';
import type { WebRequest } from './context/requests.ts';
import type { PageVisit } from './context/visit.ts';
import type { Learned, ToolQuery } from './tools/find.ts';

/** The provider that gets the calls of a tool. */
export interface Upstream {
  readonly provider: string;
  /** The provider's own name of the tool. */
  readonly tool: string;
  /** Digest of the accepted definition: another definition is another tool. */
  readonly digest: string;
  /** The most calls that the provider gets at once. */
  readonly concurrency: number;
}

/** A plugin's code and its bounds; a policy may only lower them. */
export interface PluginSpec {
  readonly code: PluginCode;
  /** Names of the built-in tools that it may call. */
  readonly tools: readonly string[];
  readonly memoryMb: number;
  /** Infinity for the bound of any program. */
  readonly cpuMs: number;
  readonly outputBytes: number;
}

/** An unpacked image, and what its author runs in it. */
export interface ImageToRun extends Omit<ImageProgram, 'argv'> {
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
}

/** In the host of the call's tier, by `run`. */
interface InHost<I extends z.ZodObject> {
  readonly in: 'host';
  /** The preview that a call is about. */
  keptPreview?(input: z.output<I>): string;
  /** Whether language servers read files for a call that no tool checks: its host then masks all that is hidden at its start. */
  readsUnchecked?(input: z.output<I>): boolean;
}

/**
 * In the execute host, whatever the call's tier, by `run`, which starts programs there, each in a sandbox of its own. In a read_only
 * call they see the workspace read-only.
 */
interface InCommand<I extends z.ZodObject> {
  readonly in: 'command';
  /** The preview that a call is about. */
  keptPreview?(input: z.output<I>): string;
  /** Whether a preview of a call runs it, over an overlay of the workspace; `preview` is never called. */
  readonly previewsByRunning?: boolean;
  /**
   * URLs whose hosts its programs reach, and nothing else; each is a `connect` effect. A remote by ssh is reached by the person's ssh,
   * which runs outside of the sandbox. Programs name `https://HOST/` as `http://HOST:443/`:
   * TLS, and the key that the person has for the host, are added outside of the sandbox.
   */
  connects?(input: z.output<I>): readonly string[];
  /** Whether it makes a commit that the person's git would sign. */
  readonly signs?: true;
  /** Programs that it runs at a server by ssh. */
  readonly remotePrograms?: readonly ('git-upload-pack' | 'git-receive-pack')[];
  /** Whether a call keeps something in its host, which is then used only by such calls; `start` if a program goes on after the call. */
  keeps?(input: z.output<I>): boolean | 'start';
  /** The background command that a call is about, whose host then runs it; without one the gateway lists all, and `run` is not called. */
  ofBackground?(input: z.output<I>): { readonly handle?: string | undefined };
}

type ByRunner<I extends z.ZodObject, O extends z.ZodObject> =
  /** A caller's or a plugin's program, in an isolate host with no authority but tool calls. */
  | { readonly by: 'isolates'; readonly plugin?: PluginSpec }
  /** A sub-agent, whose calls are judged by themselves. */
  | { readonly by: 'agents' }
  /** The gateway's answer about the tools of the session. */
  | {
      readonly by: 'tools';
      answer(input: z.output<I>, tools: readonly ListedTool[], learned: (query: ToolQuery) => Learned): z.output<O>;
    }
  /** A toolchain that a person is asked to have installed; the gateway finds and installs it. */
  | {
      readonly by: 'toolchains';
      request(input: z.output<I>): { readonly name: string; readonly version?: string | undefined };
    }
  /** A path that a person is asked to show, or the port of a service of this machine that commands are to reach. */
  | { readonly by: 'doors'; request(input: z.output<I>): { readonly path: string } | { readonly service: number } }
  /** A program of a container image: the gateway finds and unpacks the image, and `run` gets an ImageToRun as `ctx.planned`. */
  | { readonly by: 'containers'; request(input: z.output<I>): { readonly image: string } }
  /** The operation of a connector, which the egress process carries out. */
  | { readonly by: 'connectors'; readonly operation: Connected }
  /** An external provider. */
  | { readonly by: 'providers'; readonly provider: Upstream }
  /** A statement for a database server; without one, for a file, `run` runs in the tier's host. */
  | {
      readonly by: 'databases';
      readsUnchecked?(input: z.output<I>): boolean;
      request(input: z.output<I>): DatabaseRequest | undefined;
      result(answer: ServerAnswer): z.output<O>;
    }
  /** An HTTP request, which the egress process makes, or a page that a browser opens. */
  | ByWeb<I, O>;

interface ByWeb<I extends z.ZodObject, O extends z.ZodObject> {
  readonly by: 'web';
  request?(input: z.output<I>): WebRequest;
  /** Undefined for calls that need no browser. */
  visit?(input: z.output<I>): PageVisit | undefined;
  /**
   * Gives the result for the answer, whatever its status is, or for the page as the browser shows it; without it the result is the
   * answer itself, or a picture. Runs in a host without workspace and network, since reading what strangers wrote may go wrong.
   */
  read?(input: z.output<I>, page: FetchedPage, reader: PageReader): Promise<z.input<O>>;
}

export type Runs<I extends z.ZodObject, O extends z.ZodObject> = InHost<I> | InCommand<I> | ByRunner<I, O>;

type AnyRuns = Runs<z.ZodObject, z.ZodObject>;
export type RunnerName = ByRunner<z.ZodObject, z.ZodObject>['by'];
export type RunsBy<Name extends RunnerName> = Extract<AnyRuns, { by: Name }>;

interface Runnable {
  readonly runs?: AnyRuns | undefined;
}

/** What a tool says to the runner that carries out its calls; undefined if it is none of its tools. */
export function runsBy<Name extends RunnerName>({ runs }: Runnable, name: Name): RunsBy<Name> | undefined {
  return runs && 'by' in runs && runs.by === name ? (runs as RunsBy<Name>) : undefined;
}

/** What a tool says whose `run` starts programs; undefined for others. */
export const runsInCommand = ({ runs }: Runnable): InCommand<z.ZodObject> | undefined =>
  runs && 'in' in runs && runs.in === 'command' ? runs : undefined;

/** Whether a call keeps something in its host; `input` is checked. */
export const keepsAfter = (tool: Runnable, input: unknown): boolean | 'start' =>
  runsInCommand(tool)?.keeps?.(input as never) ?? false;

/** The preview that a call is about; undefined for other calls. `input` is checked. */
export const keptPreviewOf = ({ runs }: Runnable, input: unknown): string | undefined =>
  runs && 'keptPreview' in runs ? runs.keptPreview?.(input as never) : undefined;

/** Whether a call is about a preview that was kept. */
export const isCommit = ({ tool, input }: { readonly tool: Runnable; readonly input: unknown }): boolean =>
  keptPreviewOf(tool, input) !== undefined;

/** Whether programs in the host of a call read files that no tool checks; `input` is checked. */
export const readsUncheckedBy = ({ runs }: Runnable, input: unknown): boolean =>
  (runs && 'readsUnchecked' in runs && runs.readsUnchecked?.(input as never)) ?? false;
