/**
 * Command lines as a policy sees them. A real grammar reads them, not expressions over the text; whatever can't be told from
 * the text alone is said to be unknown. For asking early: the boundary is the sandbox, built from the same rules.
 * Architecture invariant: never throws, and ends in bounded time whatever the text is.
 */
import { isAbsolute, resolve } from 'node:path';
import type { Effect } from '../call.ts';
import { defaultLimits as limits } from '../limits.ts';
import { toCandidates } from './mentions.ts';
import type { ParsedCommand } from './question.ts';
import { type CommandPlace, type Draft, Reading } from './reading.ts';
import { Beyond } from './syntax.ts';
import { toTarget } from './target.ts';
import type { Field } from './words.ts';

export type { CommandPlace } from './reading.ts';

/** What a command line would do, as far as its text says. Looks at nothing but what `place.resolve` looks at. */
export function parseCommand(text: string, place: CommandPlace): ParsedCommand {
  const reading = new Reading(place);
  try {
    reading.read(text, 0);
  } catch (error) {
    // Beyond a bound, or a parser that gave up (a RangeError for its stack): what was read until then is listed all the same.
    reading.unknown(error instanceof Beyond ? error.message : 'it can not be read');
  }
  const where: Where = { ...place, folders: foldersOf(reading, place), isSure: !reading.goesTo.includes(undefined) };
  for (const it of reading.commands) settle(it, reading);
  const redirects = reading.redirects.flatMap((it) => toEffects(it, reading, where));
  const mentions = toTargets(candidatesOf(reading.named, where, reading), reading, where);
  const destinations = destinationsIn(reading, where);
  const globs = toTargets(
    reading.named.flatMap((it) => it.glob ?? []),
    reading,
    where,
  );
  return {
    ...{ commands: reading.commands, redirects, mentions },
    ...(destinations.length > 0 && { destinations }),
    ...(globs.length > 0 && { mentionGlobs: globs }),
    unknown: [...reading.reasons],
  };
}

/** Of the targets in the workspace, those that are made or overwritten and named in no other way. */
function destinationsIn(reading: Reading, where: Where): string[] {
  const { destinations, named, functions, lookup } = reading;
  // What the name of a program means may have been changed.
  if (destinations.size === 0 || functions.size > 0 || lookup !== undefined) return [];
  const others = named.filter((it) => !destinations.has(it));
  const read = new Set(toTargets(candidatesOf(others, where, reading), reading, where));
  const made = [...destinations].flatMap((it) => it.text ?? []);
  return toTargets(made, reading, where).filter((it) => !read.has(it) && !isAbsolute(it));
}

interface Where extends CommandPlace {
  /** Each directory that the shell may be in, as far as it is told. */
  readonly folders: readonly string[];
  readonly isSure: boolean;
}

function foldersOf(reading: Reading, { cwd, home }: CommandPlace): string[] {
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

/** What the whole line says of one of its commands: a later function may bear its name, a loop may bring it after a `cd`. */
function settle(draft: Draft, { lookup, functions, goesTo }: Reading): void {
  const name = draft.words[0];
  if (lookup !== undefined) draft.unknown ??= lookup;
  if (name === undefined) return;
  const isMoved = goesTo.length > 0 && name.includes('/') && !isAbsolute(name);
  if (!isMoved && !functions.has(name)) return;
  draft.program = undefined;
  draft.programPath = undefined;
  draft.unknown ??= isMoved ? 'its path counts from where cd went' : 'it is a function of this text';
}

/** What is no file: descriptors, and devices that keep nothing. */
const NO_FILE = /^\/dev\/(null|zero|full|u?random|tty|std(in|out|err)|fd\/\d+)$/;

function toEffects({ kinds, field }: Reading['redirects'][number], reading: Reading, where: Where): Effect[] {
  const { text } = field;
  if (text === undefined) {
    reading.unknown('only the shell knows where a redirection goes');
    return [];
  }
  // Bash opens these itself.
  const [, host, port] = /^\/dev\/(?:tcp|udp)\/([^/]+)\/([^/]+)$/.exec(text) ?? [];
  if (host !== undefined) return [{ kind: 'connect', target: `${host}:${port}` }];
  if (!where.isSure && !isAbsolute(text)) reading.unknown('a redirection goes to where only the shell knows');
  return targetsOf(text, where)
    .filter((it) => !NO_FILE.test(it))
    .flatMap((target) => kinds.map((kind) => ({ kind, target })));
}

/** A path from each directory that it may count from. */
function targetsOf(path: string, { workspace, folders }: Where): string[] {
  const from = isAbsolute(path) ? folders.slice(0, 1) : folders;
  return [...new Set(from.map((cwd) => toTarget(path, { workspace, cwd })))];
}

/** Bringing a path to its form looks at it a few times. */
const STEPS_PER_CHAR = 8;

/** Each of `paths` from each directory, once; stops at the bounds, and says so. */
function toTargets(paths: Iterable<string>, reading: Reading, where: Where): string[] {
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

function* candidatesOf(named: readonly Field[], { home }: Where, reading: Reading): Iterable<string> {
  for (const { text } of named) {
    if (text === undefined) continue;
    const { paths, areAll } = toCandidates(text);
    if (!areAll) reading.unknown(`one of its words may name more than ${limits.commandWordPathsMax} paths`);
    for (const it of paths) {
      yield it;
      // The shell leaves the tilde of `--file=~/x` to the program, which may take it for a home all the same.
      if (/^~(\/|$)/.test(it)) yield `${home}${it.slice(1)}`;
    }
  }
}
