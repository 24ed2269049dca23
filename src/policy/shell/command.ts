/**
 * Reads command lines for policy decisions. A real shell grammar parses them, and whatever the text alone does not tell is reported as
 * unknown. This serves to ask early; the security boundary is the sandbox, which is built from the same rules. Architecture invariant:
 * never throws, and ends in bounded time for any text.
 */
import { isAbsolute, resolve } from 'node:path';
import type { Effect } from '../../base/call.ts';
import { defaultLimits as limits } from '../../base/limits.ts';
import type { ParsedCommand } from '../question.ts';
import { toTarget } from '../target.ts';
import { toCandidates } from './mentions.ts';
import { type CommandContext, type CommandDraft, CommandReader } from './reading.ts';
import { SyntaxBoundError } from './syntax.ts';
import type { ShellArgument } from './words.ts';

export type { CommandContext } from './reading.ts';

/** What a command line would do, as far as its text says. Touches the disk only through `context.resolve`. */
export function parseCommand(text: string, context: CommandContext): ParsedCommand {
  const reading = readLine(text, context);
  const where: ShellPosition = {
    ...context,
    folders: foldersOf(reading, context),
    isSure: !reading.goesTo.includes(undefined),
  };
  for (const it of reading.commands) settle(it, reading);
  const redirects = reading.redirects.flatMap((it) => toEffects(it, reading, where));
  const mentions = toTargets(candidatesOf(reading.named, where, reading), reading, where);
  const scripts = scriptsOf(reading, where);
  const globs = toTargets(
    reading.named.flatMap((it) => it.glob ?? []),
    reading,
    where,
  );
  return {
    commands: reading.commands,
    redirects,
    mentions,
    ...(scripts.length > 0 && { scripts }),
    ...(globs.length > 0 && { mentionGlobs: globs }),
    unknown: [...reading.reasons],
    ...(reading.isHidden && { isHidden: true }),
  };
}

function readLine(text: string, context: CommandContext): CommandReader {
  const reading = new CommandReader(context);
  try {
    reading.read(text, 0);
  } catch (error) {
    // A bound was exceeded, or the parser gave up (a RangeError when its stack is full): whatever was read until then is still listed.
    reading.unknown(error instanceof SyntaxBoundError ? error.message : 'it can not be read');
  }
  return reading;
}

/** Most scripts of package.json files that are read for one line; scripts run others. */
const SCRIPTS_MAX = 16;

/** The commands of the scripts that the line runs by name, and of the scripts that those run. */
function scriptsOf({ scripts }: CommandReader, { folders, ...context }: ShellPosition): CommandDraft[] {
  const names = new Set(scripts);
  const found: CommandDraft[] = [];
  for (const name of names) {
    if (names.size > SCRIPTS_MAX) break;
    for (const folder of folders) {
      const text = context.script?.(folder, name);
      if (text === undefined) continue;
      const { commands, scripts: more } = readLine(text, context);
      found.push(...commands);
      for (const it of more) names.add(it);
    }
  }
  return found.slice(0, limits.commandPartsMax);
}

interface ShellPosition extends CommandContext {
  /** Every directory that the shell may be in, as far as known. */
  readonly folders: readonly string[];
  readonly isSure: boolean;
}

function foldersOf(reading: CommandReader, { cwd, home }: CommandContext): string[] {
  const folders = new Set([resolve(cwd)]);
  for (const path of reading.goesTo) {
    if (path === undefined) continue;
    for (const from of [...folders]) folders.add(path === '~' ? home : resolve(from, path));
    if (folders.size <= limits.commandFoldersMax) continue;
    reading.unknown(`it goes to more than ${limits.commandFoldersMax} directories`);
    break;
  }
  return [...folders].slice(0, limits.commandFoldersMax);
}

/** Applies what the whole line says to one of its commands: a function defined later may have its name, a loop may run it after a `cd`. */
function settle(draft: CommandDraft, { lookup, functions, goesTo }: CommandReader): void {
  const name = draft.words[0];
  if (lookup !== undefined) draft.unknown ??= lookup;
  if (name === undefined) return;
  const isMoved = goesTo.length > 0 && name.includes('/') && !isAbsolute(name);
  if (!isMoved && !functions.has(name)) return;
  draft.program = undefined;
  draft.programPath = undefined;
  draft.unknown ??= isMoved ? 'its path is relative to the folder of an earlier cd' : 'it is a function of this text';
}

/** Targets that are not files: descriptors, and devices that store nothing. */
const NO_FILE = /^\/dev\/(null|zero|full|u?random|tty|std(in|out|err)|fd\/\d+)$/;

function toEffects(
  { kinds, field }: CommandReader['redirects'][number],
  reading: CommandReader,
  position: ShellPosition,
): Effect[] {
  const { text } = field;
  if (text === undefined) {
    reading.unknown('only the shell knows where a redirection goes');
    return [];
  }
  // Bash itself opens network connections for these names.
  const [, host, port] = /^\/dev\/(?:tcp|udp)\/([^/]+)\/([^/]+)$/.exec(text) ?? [];
  if (host !== undefined) return [{ kind: 'connect', target: `${host}:${port}` }];
  if (!position.isSure && !isAbsolute(text)) reading.unknown('a redirection goes to where only the shell knows');
  return targetsOf(text, position)
    .filter((it) => !NO_FILE.test(it))
    .flatMap((target) => kinds.map((kind) => ({ kind, target })));
}

/** The targets of a path from every directory that it may be relative to. */
function targetsOf(path: string, { workspace, folders }: ShellPosition): string[] {
  const from = isAbsolute(path) ? folders.slice(0, 1) : folders;
  return [...new Set(from.map((cwd) => toTarget(path, { workspace, cwd })))];
}

/** Normalising a path reads each of its characters a few times. */
const STEPS_PER_CHAR = 8;

/** The distinct targets of `paths` from each directory; stops at the bounds and reports that as unknown. */
function toTargets(paths: Iterable<string>, reading: CommandReader, where: ShellPosition): string[] {
  const found = new Set<string>();
  const seen = new Set<string>();
  let stepsLeft = limits.commandStepsMax;
  for (const path of paths) {
    if (seen.has(path)) continue;
    seen.add(path);
    stepsLeft -= path.length * STEPS_PER_CHAR * where.folders.length;
    if (stepsLeft < 0 || found.size >= limits.commandMentionsMax) {
      reading.unknown(`it names more than ${limits.commandMentionsMax} paths, or too long ones`);
      break;
    }
    for (const it of targetsOf(path, where)) found.add(it);
  }
  return [...found];
}

function* candidatesOf(
  named: readonly ShellArgument[],
  { home }: ShellPosition,
  reading: CommandReader,
): Iterable<string> {
  for (const { text } of named) {
    if (text === undefined) continue;
    const { paths, areAll } = toCandidates(text);
    if (!areAll) reading.unknown(`one of its words may name more than ${limits.commandWordPathsMax} paths`);
    for (const it of paths) {
      yield it;
      // The shell does not expand the tilde in `--file=~/x`, but the program may.
      if (/^~(\/|$)/.test(it)) yield `${home}${it.slice(1)}`;
    }
  }
}
