/** The question that a policy answers: the facts of a call that matter for permission. */
import type { Effect, Tier } from '../base/call.ts';

/** One simple command of a command line: `git log > x` has one, `a | b && $(c)` three. */
export interface SimpleCommand {
  /** Source text, for messages. */
  readonly text: string;
  /**
   * Words after quotes and escapes are removed; undefined if only the shell knows (`$x`, `$(…)`, globs). words[0] is the program as
   * written.
   */
  readonly words: readonly (string | undefined)[];
  /** Base name of the system program that words[0] runs; undefined if it is dynamic, not found, or in the workspace. */
  readonly program: string | undefined;
  /** Absolute real path of the program; undefined if it is dynamic, a builtin or function, or not found. */
  readonly programPath: string | undefined;
  /**
   * Why no rule may allow the command: an assignment before it, a wrapper that runs more (`eval`, `xargs`), a dynamic program name.
   * Undefined if rules may allow it.
   */
  readonly unknown: string | undefined;
}

/** A parsed command line. What the parser can't know is in `unknown`. */
export interface ParsedCommand {
  readonly commands: readonly SimpleCommand[];
  /** Effects of redirections: read, write. Targets are relative to the workspace if inside it, else absolute. */
  readonly redirects: readonly Effect[];
  /** Paths named in words, which a program may read or write; only rules that refuse are asked about them. Targets as in `redirects`. */
  readonly mentions: readonly string[];
  /** Commands of package.json scripts that the line runs by name: `npm run release`. No rule needs to allow them. */
  readonly scripts?: readonly SimpleCommand[];
  /** Globs among the words, relative to the workspace (`.e*`). The files that they match are not known here. */
  readonly mentionGlobs?: readonly string[];
  /** Why more may happen than is listed; empty when everything is known. */
  readonly unknown: readonly string[];
  /** Whether a shell runs a text that nothing here tells (`eval "$x"`, `curl … | sh`): it may hold any command. */
  readonly isHidden?: true;
}

export interface PolicyQuestion {
  readonly tool: string;
  /** Other names of that tool. */
  readonly aliases: readonly string[];
  readonly tier: Tier;
  readonly category: string;
  /** Whether this call may destroy something that can't be restored. */
  readonly destructive: boolean;
  /** Effects that the tool declares; targets normalised by `toTarget`. */
  readonly effects: readonly Effect[];
  /** Present for calls that run a command line. */
  readonly command?: ParsedCommand | undefined;
  readonly principal: string;
  readonly session: string;
  /** Whether the session has got a result that strangers wrote. */
  readonly sawUntrusted?: boolean;
  /** The person's home directory, absolute; `~/` in a rule stands for it. */
  readonly home: string;
  /**
   * Whether a target is known to hold no credential (ordinary.ts); without this function every target may hold one. Must answer the same
   * for the same target.
   */
  readonly isOrdinary?: (target: string) => boolean;
  /** Absolute path; with it, patterns that begin with `/` or `~/` also apply to paths inside the workspace. */
  readonly workspace?: string;
}
