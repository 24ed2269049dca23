/** What a policy is asked: a call as far as it bears on permission. */
import type { Effect, Tier } from '../call.ts';

/** One simple command of a command line: `git log > x` has one, `a | b && $(c)` three. */
export interface SimpleCommand {
  /** Its source text, for messages. */
  readonly text: string;
  /**
   * Its words after expansion of quotes and escapes; undefined where only the shell knows (`$x`, `$(…)`, globs).
   * words[0] is the program as written.
   */
  readonly words: readonly (string | undefined)[];
  /** What words[0] names: base name of the real path of a program of the system; undefined when it is dynamic, not found, or of the workspace. */
  readonly program: string | undefined;
  /** Absolute real path of the program, wherever it lies; undefined when dynamic, a builtin or function, or not found. */
  readonly programPath: string | undefined;
  /** Why no rule may allow it, if so: an assignment before it, a wrapper that runs more (`eval`, `xargs`), a dynamic word in command position. */
  readonly unknown: string | undefined;
}

/** A command line as far as a parser can know it. Whatever it can't know is in `unknown`. */
export interface ParsedCommand {
  readonly commands: readonly SimpleCommand[];
  /** What redirections do: read, write. Targets as effects are: relative to the workspace where inside it, else absolute. */
  readonly redirects: readonly Effect[];
  /** Paths named in words, which a program may read or write: only asked for rules that refuse. Same form of target. */
  readonly mentions: readonly string[];
  /**
   * Of the mentions, those in the workspace that a program only makes or overwrites: the second operand of `cp`. Rules on secrets
   * are not asked about them: nothing of theirs is read, and the mask stays on one that is there.
   */
  readonly destinations?: readonly string[];
  /** Globs among the words that the shell unfolds to paths, relative to the workspace: `.e*`. What they find is not known here. */
  readonly mentionGlobs?: readonly string[];
  /** Reasons why more may happen than is listed; empty when all is known. */
  readonly unknown: readonly string[];
}

export interface Question {
  readonly tool: string;
  /** Other names of that tool. */
  readonly aliases: readonly string[];
  readonly tier: Tier;
  readonly category: string;
  /** Whether this very call may destroy something that can't be had back. */
  readonly destructive: boolean;
  /** Of the tool; targets normalised by `toTarget`. */
  readonly effects: readonly Effect[];
  /** Present for calls that run a command line. */
  readonly command?: ParsedCommand;
  readonly principal: string;
  readonly session: string;
  /** Of the person, absolute; what `~/` in a rule stands for. */
  readonly home: string;
  /** Whether a target is known to hold no credential itself (ordinary.ts); none is where this is absent. The same answer for the same target. */
  readonly isOrdinary?: (target: string) => boolean;
  /** Absolute; lets patterns that begin with `/` or `~/` hold for paths inside the workspace. */
  readonly workspace?: string;
}
