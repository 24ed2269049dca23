/** What a job's context is made from. */

import type { CommandBounds, Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import type { PathView, ToolJob } from '../../src/hosts/job.ts';
import type { HomeNames } from '../../src/sandbox/command/homes.ts';
import type { Overlay } from '../../src/sandbox/command/overlay.ts';
import type { CommandRequest, CommandSetup } from '../../src/sandbox/command/request.ts';
import type { Identity } from '../../src/sandbox/git/commit-author.ts';
import type { Masks } from '../../src/sandbox/masks.ts';
import type { ContextPart } from '../../src/tools/context/part.ts';
import type { KeptPrograms } from '../../src/tools/terminals.ts';
import type { Ripgrep } from '../search/ripgrep.ts';
import type { LanguageServers } from '../symbols/language-servers.ts';
import type { ChangeRecorder, Changes } from '../undo/changes.ts';
import type { JournalLocation } from '../undo/journal.ts';
import type { TreeChanges } from '../undo/tree-changes.ts';
import type { Anchor } from './anchor.ts';
import type { Commands } from './commands.ts';
import type { HeldPaths } from './held-paths.ts';
import type { PathRules } from './path-rules.ts';

export interface ContextOptions {
  readonly workspace: string;
  readonly anchor: Anchor;
  /** The path rules for the job. */
  readonly view: PathView;
  /** What commands must not see or change. */
  readonly masks: Masks;
  /** The only contents that writes may replace, if a person approved the call. */
  readonly preImages?: ToolJob['preImages'];
  /** Targets that a person approved, relative to the configured workspace; protected names among them may be written. */
  readonly lifted?: readonly string[] | undefined;
  /** Called before each change of a file, instead of the journal. */
  readonly recorder?: ChangeRecorder;
  /** The undo journal for what each change replaces; absent for none. */
  readonly journal?: JournalLocation | undefined;
  readonly state?: unknown;
  /** The plan of this call. */
  readonly planned?: unknown;
  /** Whether the job is read-only. */
  readonly readOnly?: boolean | undefined;
  /** The person's git identity; absent if unknown. */
  readonly identity?: Identity | undefined;
  /** Bounds of each command; absent for jobs that run none. */
  readonly bounds?: CommandBounds | undefined;
  readonly egressToken?: string | undefined;
  readonly signs?: true | undefined;
  readonly services?: readonly number[] | undefined;
  /** Name of the commands' HOME. */
  readonly home?: HomeNames | undefined;
  /** Unix sockets of others to hide from commands, if commands may have sockets themselves. */
  readonly sockets?: readonly string[] | undefined;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Absent in hosts that run no commands. */
  readonly command?: CommandSetup | undefined;
  /** What the host keeps for the session; absent if the job has none, or keeps nothing. */
  readonly kept?: (onGitConfigs: Commands['tookOver']) => KeptPrograms;
  /** What the commands of the job change instead of the workspace. */
  readonly overlay?: Overlay | undefined;
  /** Folder of the preview that the job is about. */
  readonly keptPreview?: string;
  readonly signal: AbortSignal;
  /** The thread's ripgrep; a new one if absent. */
  readonly ripgrep?: Ripgrep;
  /** The thread's language servers. */
  readonly servers?: LanguageServers | undefined;
  /** Makes the parts that capabilities bring. */
  readonly parts?: ContextParts;
  readonly onOutput?: CommandRequest['onOutput'] | undefined;
}

/** What parts of capabilities use of a context. */
export interface PartContext extends ContextOptions {
  readonly rules: PathRules;
  readonly paths: HeldPaths;
  readonly changes: Changes;
  readonly files: TreeChanges;
}

export type ContextParts = ReadonlyMap<ContextPart<unknown>, (own: PartContext) => unknown>;

/** The part of a thread's setup that decides which parts it has. */
export interface ThreadTier {
  readonly tier: string;
  readonly limits: Limits;
}
