/** How much a call may do, shown to a person who decides. Architecture invariant: pure, and never a permission. */
import type { Effect, Tier } from '../../base/call.ts';
import { visibleInLine } from '../../base/text/shown-text.ts';
import type { ParsedCommand } from '../../policy/question.ts';
import { type Publishing, publishingOf } from '../../policy/shell/publishing.ts';
import type { Approval, Impact, ImpactLevel, Reach } from '../../store/approvals/approval.ts';
import { IMPACTS, REACHES } from '../../store/approvals/shapes.ts';
import { type CommandImpact, hasInlineCode, impactOfCommand, runsWhatItFetches } from './command-impact.ts';
import { cutText } from './shown.ts';

export interface ImpactFacts {
  readonly tool: string;
  readonly tier: Tier;
  readonly effects: readonly Effect[];
  readonly command?: ParsedCommand | undefined;
  /** Whether this call may destroy something permanently. */
  readonly destructive: boolean;
  /** Reasons why more may happen than is known. */
  readonly unknown: readonly string[];
  readonly costUsd?: number | undefined;
}

/** The most paths, programs and reasons named per kind, and characters of each; nobody reads a wall of warnings. */
const NAMED_MAX = 8;
const NAME_CHARS_MAX = 200;
/** The most simple commands of one command line that are judged. */
const COMMANDS_MAX = 1000;
const CANNOT_BE_UNDONE = 'Cannot be undone';

interface ImpactFinding {
  readonly level: ImpactLevel;
  readonly description: string;
  readonly warnings: readonly string[];
}

/** The worst finding decides level and description; the warnings of all findings follow, the worst first. */
export function impactOf(facts: ImpactFacts): Impact {
  const { effects, command, unknown, costUsd = 0, tier } = facts;
  const parts = command ? [...effects.filter((it) => it.kind !== 'exec'), ...command.redirects] : effects;
  const findings = [
    ...ofEffects(parts, facts),
    ...(command ? ofCommand(command) : []),
    ...(tier === 'external_api' ? [REMOTE] : []),
    ...ofUnknown([...unknown, ...(command?.unknown ?? [])]),
    ...(costUsd > 0 ? [ofCost(costUsd)] : []),
    ofTier(facts),
  ].toSorted((a, b) => IMPACTS.indexOf(b.level) - IMPACTS.indexOf(a.level));
  const [{ level, description }] = findings as [ImpactFinding, ...ImpactFinding[]];
  return { level, description, warnings: [...new Set(findings.flatMap((it) => it.warnings))] };
}

/** The impact of a call whose changes the undo journal keeps. The level stays: until somebody undoes it, a deleted file is gone. */
export function undoable({ level, description, warnings }: Impact): Impact {
  return {
    level,
    description: description.replace(' permanently', ''),
    warnings: warnings.map((it) => (it === CANNOT_BE_UNDONE ? 'Can be undone (ringfence undo)' : it)),
  };
}

/** Adds a warning, and raises the level to at least `level`. */
export function warned(impact: Impact, level: ImpactLevel, warning: string): Impact {
  const higher = IMPACTS.indexOf(level) > IMPACTS.indexOf(impact.level) ? level : impact.level;
  return { ...impact, level: higher, warnings: [warning, ...impact.warnings] };
}

const REMOTE: ImpactFinding = {
  level: 'high',
  description: 'This operation will affect remote systems',
  warnings: ['Remote operation - affects others'],
};

/** The finding by tier alone, for when nothing else is known of the call. */
function ofTier({ tier, tool, command, effects, destructive }: ImpactFacts): ImpactFinding {
  const none = { warnings: [] };
  if (tier === 'read_only') return { level: 'low', description: 'This operation reads only', ...none };
  if (tier === 'write') {
    const warnings = destructive && effects.length === 0 ? [CANNOT_BE_UNDONE] : [];
    return { level: 'medium', description: 'This operation will modify files', warnings };
  }
  if (command && command.commands.length > 0)
    return { level: 'low', description: 'This operation runs commands that only read', ...none };
  return { level: 'medium', description: `This operation runs \`${cutText(tool, NAME_CHARS_MAX)}\``, ...none };
}

/** Deletes what it reads only after that stands at another path. */
const MOVING_TOOL = 'file_rename';

function ofEffects(effects: readonly Effect[], { destructive, tool }: ImpactFacts): ImpactFinding[] {
  const targets = (kind: Effect['kind']) => effects.filter((it) => it.kind === kind).map((it) => it.target);
  const [written, hosts, run] = [targets('write'), targets('connect'), targets('exec')];
  const isMove = tool === MOVING_TOOL;
  const moved = isMove ? targets('read') : [];
  const deleted = targets('delete').filter((it) => !moved.includes(it));
  return [
    ...(moved.length > 0 ? [{ ...MODIFIES, warnings: [named('Will move', moved)] }] : []),
    ...(deleted.length > 0 ? [{ ...DELETES, warnings: [CANNOT_BE_UNDONE, named('Will delete', deleted)] }] : []),
    ...(hosts.length > 0 ? [{ ...REMOTE, warnings: [...REMOTE.warnings, named('Will connect to', hosts)] }] : []),
    ...(written.length > 0
      ? [{ ...MODIFIES, warnings: [named('Will modify', written), ...(destructive && !isMove ? [OVERWRITES] : [])] }]
      : []),
    ...(run.length > 0 ? [{ ...RUNS, warnings: [named('Will run', run)] }] : []),
  ];
}

const OVERWRITES = 'May replace what is there';
const DELETES = { level: 'high', description: 'This operation will delete data permanently' } as const;
const MODIFIES = { level: 'medium', description: 'This operation will modify files' } as const;
const RUNS = { level: 'medium', description: 'This operation runs code that is not shown here' } as const;

const KINDS: Readonly<Record<CommandImpact['kind'], { description: string; label: string; more?: string }>> = {
  deletes: { description: DELETES.description, label: 'Deletes or discards', more: CANNOT_BE_UNDONE },
  remote: { description: REMOTE.description, label: 'Reaches other systems', more: REMOTE.warnings[0] as string },
  privileged: {
    description: 'This operation acts on the system itself',
    label: 'Acts with other rights, or on the system',
  },
  installs: {
    description: 'This operation changes which programs are installed, and may run their code',
    label: 'Installs or runs packages',
  },
  runs: { description: RUNS.description, label: 'Runs code that is not shown here' },
  unclear: { description: 'Not all of this operation can be known beforehand', label: "Can't be known beforehand" },
  modifies: { description: 'This operation may modify files', label: 'May modify files' },
  reads: { description: 'This operation runs commands that only read', label: 'Reads' },
};

function ofCommand({ commands }: ParsedCommand): ImpactFinding[] {
  const groups = new Map<string, { impact: CommandImpact; texts: string[] }>();
  for (const command of commands.slice(0, COMMANDS_MAX)) {
    const impact = impactOfCommand(command);
    if (impact.level === 'low') continue;
    const key = `${impact.level} ${impact.kind}`;
    const group = groups.get(key) ?? { impact, texts: [] };
    const why = command.unknown === undefined ? '' : ` (${command.unknown})`;
    group.texts.push(`${cutText(command.text, NAME_CHARS_MAX / 2)}${why}`);
    groups.set(key, group);
  }
  if (commands.length > COMMANDS_MAX) {
    const texts = [`${commands.length - COMMANDS_MAX} commands more`];
    groups.set('', { impact: { level: 'high', kind: 'unclear' }, texts });
  }
  const findings = [...groups.values()].map(({ impact, texts }): ImpactFinding => {
    const { description, label, more } = KINDS[impact.kind];
    return { level: impact.level, description, warnings: [...(more === undefined ? [] : [more]), named(label, texts)] };
  });
  if (!runsWhatItFetches(commands)) return findings;
  const fetched = 'Runs what it fetches from elsewhere';
  return [{ level: 'high', description: 'This operation runs code from elsewhere', warnings: [fetched] }, ...findings];
}

const UNSEEN: ReadonlySet<CommandImpact['kind']> = new Set(['runs', 'unclear', 'installs']);

/** Whether a line runs code that it does not contain: from files that it names, or from sources that can't be known beforehand. */
export const runsUnseen = ({ commands, unknown }: ParsedCommand): boolean =>
  unknown.length > 0 || commands.length > COMMANDS_MAX || commands.some((it) => UNSEEN.has(impactOfCommand(it).kind));

/** How far the commands of a line reach. Deleting counts as modifying; the impact level tells the two apart. */
export function reachOf({ commands, redirects, unknown }: ParsedCommand): Reach {
  const reaches = commands.slice(0, COMMANDS_MAX).map((it) => REACH_OF[impactOfCommand(it).kind]);
  if (redirects.some((it) => it.kind !== 'read')) reaches.push('modifies');
  if (redirects.some((it) => it.kind === 'connect') || commands.length > COMMANDS_MAX) reaches.push('remote');
  if (unknown.length > 0) reaches.push('runs');
  return reaches.reduce((a, b) => (REACHES.indexOf(b) > REACHES.indexOf(a) ? b : a), 'reads');
}

const REACH_OF: Readonly<Record<CommandImpact['kind'], Reach>> = {
  reads: 'reads',
  modifies: 'modifies',
  deletes: 'modifies',
  runs: 'runs',
  unclear: 'runs',
  remote: 'remote',
  installs: 'remote',
  privileged: 'remote',
};

/** What a remembered approval would cover, by each way to remember it; see `Approval.remember`. */
export function coverageOf(command: ParsedCommand | undefined, level: ImpactLevel): Approval['remember'] {
  const publishes = publishedBy(command);
  if (publishes.some((it) => it.isGrave) || (command && hasInlineCode(command.commands))) return {};
  if (command && publishes.length > 0) return { exact: 'exactly this call', tool: programsOf(command).join(', ') };
  const exact =
    command && runsUnseen(command)
      ? 'this very command line, whatever code the files that it runs hold by then'
      : 'exactly this call';
  if (level === 'high') return { exact };
  if (!command) return { exact, tool: 'calls of this tool with at most this impact' };
  const names = programsOf(command).map((it) => visibleInLine(it.slice(it.lastIndexOf('/') + 1)));
  const [, programs = ''] = named('', names).split(': ');
  return {
    exact,
    tool: runsUnseen(command)
      ? `any code in ${programs}`
      : `commands of ${programs} that reach no further than this one`,
  };
}

/** The programs of a line, sorted: real paths, names as written for programs that were not found, `git push to origin` for what publishes. */
export function programsOf(command: ParsedCommand): string[] {
  const programs = command.commands
    .filter((it) => !publishingOf(it))
    .map((it) => it.programPath ?? `? ${it.words[0] ?? it.text}`);
  const published = publishedBy(command).map(describePublishing);
  return [...new Set([...programs, ...published])].toSorted();
}

/** How long an answer may be remembered: one for what publishes for the session at most, and not where others may lose work. */
export function rememberedFor(
  command: ParsedCommand | undefined,
  rememberMaxMs: number,
): { rememberMaxMs: number; sessionOnly?: true } {
  const publishes = publishedBy(command);
  if (publishes.some((it) => it.isGrave)) return { rememberMaxMs: 0 };
  return { rememberMaxMs, ...(publishes.length > 0 && { sessionOnly: true }) };
}

/** No answer for a plain push covers one that others may lose work by. */
const describePublishing = ({ verb, to, isGrave }: Publishing): string =>
  [verb, to === undefined ? '' : ` to ${to}`, isGrave ? ', by force or where everybody builds' : ''].join('');

/** What the commands of a line publish, and those of the scripts that it runs by name. */
export const publishedBy = (command: ParsedCommand | undefined): Publishing[] =>
  [...(command?.commands ?? []), ...(command?.scripts ?? [])].flatMap((it) => publishingOf(it) ?? []);

function ofUnknown(reasons: readonly string[]): ImpactFinding[] {
  if (reasons.length === 0) return [];
  const { description, label } = KINDS.unclear;
  return [{ level: 'medium', description, warnings: [named(label, reasons)] }];
}

function ofCost(costUsd: number): ImpactFinding {
  return {
    level: 'medium',
    description: 'This operation costs money',
    warnings: [`Costs about $${costUsd.toFixed(4)}`],
  };
}

/** `Will modify: a, b and 12 more`. */
function named(label: string, names: readonly string[]): string {
  const distinct = [...new Set(names)];
  const shownNames = distinct.slice(0, NAMED_MAX).map((it) => cutText(it, NAME_CHARS_MAX));
  const more = distinct.length > NAMED_MAX ? ` and ${distinct.length - NAMED_MAX} more` : '';
  return `${label}: ${shownNames.join(', ')}${more}`;
}
