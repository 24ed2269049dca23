/**
 * Indexes the rules of one policy by a property that a part must have for them to match, so that 500 rules cost about as much as the ten
 * that could match. A rule that can't be indexed is tested every time.
 */
import type { Decision } from '../base/call.ts';
import { compileSegment, compileText } from '../base/text/glob.ts';
import {
  type Certainty,
  compileMatch,
  type DecidingRuleFacts,
  isMaskedBy,
  pathsOf,
  type QuestionPart,
  toTokens,
} from './match.ts';
import type { ParsedCommand, SimpleCommand } from './question.ts';
import type { MatchSpec } from './schema/match.ts';
import { toPathTexts } from './schema/path-patterns.ts';
import type { Rule } from './schema.ts';

/** A rule, ready to be tested. */
export interface FiledRule {
  readonly facts: DecidingRuleFacts;
  readonly decision: Decision;
  readonly test: (part: QuestionPart) => Certainty;
  readonly ofPaths: boolean;
  /** Whether the rule depends on the words of a command. */
  readonly ofCommands: boolean;
  /** See `isMaskedBy`. */
  readonly isMasked: boolean;
}

const indexes = new WeakMap<readonly Rule[], RuleIndex>();

/** The index of a list of rules, built once for each list. Throws INPUT_INVALID if the braces of a path expand to too many alternatives. */
export function indexOf(rules: readonly Rule[]): RuleIndex {
  const known = indexes.get(rules);
  if (known) return known;
  const index = new RuleIndex(rules);
  indexes.set(rules, index);
  return index;
}

type RulesByKey = Map<string, FiledRule[]>;

/** The list, or the map and key, under which a rule is stored. */
type IndexSlot = readonly [drawer: RulesByKey, key: string] | readonly [list: FiledRule[]];

export class RuleIndex {
  readonly all: readonly FiledRule[];
  /** Rules by a literal segment that their paths contain. */
  readonly #bySegment: RulesByKey = new Map();
  /** Rules by the file extension of their paths. */
  readonly #byExtension: RulesByKey = new Map();
  readonly #byProgram: RulesByKey = new Map();
  readonly #byTool: RulesByKey = new Map();
  readonly #paths: FiledRule[] = [];
  readonly #commands: FiledRule[] = [];
  readonly #hosts: FiledRule[] = [];
  readonly #others: FiledRule[] = [];
  readonly #ofCommands: readonly FiledRule[];
  readonly #ofLines = new WeakMap<ParsedCommand, readonly FiledRule[]>();

  constructor(rules: readonly Rule[]) {
    this.all = rules.map(toFiled);
    this.#ofCommands = this.all.filter((it) => it.ofCommands);
    for (const [at, { match }] of rules.entries()) {
      const rule = this.all[at] as FiledRule;
      for (const place of this.#slotsOf(match) ?? [[this.#others] as const]) addRule(place, rule);
    }
  }

  /** Lists that together contain every rule whose level for the part may be MAYBE or more; a rule may occur twice. */
  candidates(part: QuestionPart): (readonly FiledRule[])[] {
    const lists: (readonly FiledRule[])[] = [this.#others];
    const take = (found: readonly FiledRule[] | undefined) => found && lists.push(found);
    const { kind, question, command, targetPaths, ofLine } = part;
    take(this.#byTool.get(question.tool));
    for (const it of question.aliases) take(this.#byTool.get(it));
    if (targetPaths) {
      const segments = targetPaths.absolute ?? targetPaths.relative ?? [];
      for (const it of segments) take(this.#bySegment.get(it));
      take(this.#byExtension.get(extensionOf(segments.at(-1) ?? '')));
      take(this.#paths);
      if (ofLine && question.command) take(this.#ofLine(question.command));
    } else if (command) lists.push(...this.#ofCommand(command));
    else if (kind === 'connect') take(this.#hosts);
    else if (kind === 'unknown') take(this.#ofCommands);
    return lists;
  }

  #ofCommand({ words, program }: SimpleCommand): (readonly FiledRule[])[] {
    const written = words[0];
    if (written === undefined) return [this.#ofCommands];
    const name = written.slice(written.lastIndexOf('/') + 1);
    const found = [program, name === program ? undefined : name].map(
      (it) => it !== undefined && this.#byProgram.get(it),
    );
    return [this.#commands, ...found.filter((it) => it !== false && it !== undefined)];
  }

  /** The rules on paths that the line's commands select; cached, since each path that the line names needs them. */
  #ofLine(line: ParsedCommand): readonly FiledRule[] {
    const known = this.#ofLines.get(line);
    if (known) return known;
    const found = new Set(line.commands.flatMap((it) => this.#ofCommand(it)).flat());
    const rules = [...found].filter((it) => it.ofPaths);
    this.#ofLines.set(line, rules);
    return rules;
  }

  /** The slots under which a rule can always be found; undefined if there are none. */
  #slotsOf(match: MatchSpec): IndexSlot[] | undefined {
    // All conditions must hold, so one of them is enough to find the rule. The most selective comes first.
    const must = conjunctsOf(match);
    const globs = must.map(pathsByKey).find((it) => it.length > 0);
    if (globs) return this.#slotsOfPaths(globs);
    if (must.some((it) => it.host !== undefined)) return [[this.#hosts]];
    const command = must.find((it) => it.command)?.command;
    if (command) return this.#slotsOfCommand(command);
    const tools = [must.find((it) => it.tool !== undefined)?.tool ?? []].flat().map((it) => compileText(it).literal);
    if (tools.length > 0 && !tools.includes(undefined)) return tools.map((it) => [this.#byTool, it as string]);
    for (const { any = [] } of must) {
      const targetPaths = any.map((it) => this.#slotsOf(it));
      if (any.length > 0 && !targetPaths.includes(undefined)) return (targetPaths as IndexSlot[][]).flat();
    }
    return undefined;
  }

  #slotsOfPaths(globs: readonly string[]): IndexSlot[] {
    const keys = globs.flatMap(toPathTexts).map(({ segments }) => keyOf(segments));
    if (keys.includes(undefined)) return [[this.#paths]];
    return (keys as RuleIndexKey[]).map(({ of, text }) => [
      of === 'segment' ? this.#bySegment : this.#byExtension,
      text,
    ]);
  }

  #slotsOfCommand(command: NonNullable<MatchSpec['command']>): IndexSlot[] {
    const programs = toTokens(command)[0]?.map((it) => it.literal) ?? [undefined];
    return programs.includes(undefined) ? [[this.#commands]] : programs.map((it) => [this.#byProgram, it as string]);
  }
}

function toFiled({ id, decision, reason, source, code, preview, match }: Rule): FiledRule {
  const facts = Object.freeze({ id, decision, reason, source, code, preview });
  return { facts, decision, ...compileMatch(match), isMasked: isMaskedBy({ match, source, code }) };
}

const conjunctsOf = (match: MatchSpec): MatchSpec[] => [match, ...(match.all ?? []).flatMap(conjunctsOf)];

/** The globs of one of the match's path keys; one is enough, since all keys must hold. */
function pathsByKey({ path, read, write, delete: deleted }: MatchSpec): readonly string[] {
  const value = path ?? read ?? write ?? deleted;
  return value === undefined ? [] : pathsOf({ path: value });
}

interface RuleIndexKey {
  readonly of: 'segment' | 'extension';
  readonly text: string;
}

/** A segment or extension that every matching path contains; undefined if there is none. */
function keyOf(segments: readonly string[]): RuleIndexKey | undefined {
  const wildcards = segments.filter((it) => it !== '**').map(compileSegment);
  const literal = wildcards.findLast((it) => it.literal !== undefined)?.literal;
  if (literal !== undefined) return { of: 'segment', text: literal };
  const ending = segments.at(-1) === '**' ? '' : (wildcards.at(-1)?.ending ?? '');
  return ending.includes('.') ? { of: 'extension', text: extensionOf(ending) } : undefined;
}

const extensionOf = (name: string): string => name.slice(name.lastIndexOf('.') + 1);

function addRule([drawer, key]: IndexSlot, rule: FiledRule): void {
  const list = Array.isArray(drawer) ? drawer : (drawer.get(key as string) ?? []);
  if (!Array.isArray(drawer)) drawer.set(key as string, list);
  if (list.at(-1) !== rule) list.push(rule);
}
