/** Tries the examples of rules, so that a policy file whose examples contradict its rules is refused. */
import type { Effect, Tier } from '../base/call.ts';
import { jsonOr } from '../base/text/json.ts';
import { isRecord } from '../base/text/values.ts';
import { ruleMatches } from './match.ts';
import { quoteForMessage } from './positioned-yaml.ts';
import type { PolicyQuestion } from './question.ts';
import type { MatchSpec } from './schema/match.ts';
import type { Rule } from './schema.ts';
import { parseCommand } from './shell/command.ts';
import { toTarget } from './target.ts';

/** The permission-relevant facts of a call; undefined for an unknown tool. Throws for input that the tool does not accept. */
export type EffectsOf = (tool: string, input: Readonly<Record<string, unknown>>) => Partial<PolicyQuestion> | undefined;

export interface ExampleOutcome {
  readonly rule: string;
  readonly kind: 'match' | 'no_match';
  /** Index in the list of that kind. */
  readonly index: number;
  readonly text: string;
  /** Why the example fails; undefined when it holds. */
  readonly problem: string | undefined;
}

/** The fixed workspace in which all examples are judged, so that results are the same on every machine. */
const PLACE = {
  workspace: '/workspace',
  cwd: '/workspace',
  home: '/home/person',
  resolve: (name: string) => (name.includes('/') ? undefined : `/usr/bin/${name}`),
} as const;

/** Tries every example of a rule. Pure but for `effectsOf`. */
export function tryExamples(rule: Rule, effectsOf?: EffectsOf): ExampleOutcome[] {
  const who = whoOf(rule.match);
  const outcomes = (kind: 'match' | 'no_match', texts: readonly string[] = []) =>
    texts.map((text, index) => ({
      rule: rule.id,
      kind,
      index,
      text,
      problem: problemOf(rule, kind, () => ({ ...toQuestion(text, effectsOf), ...who })),
    }));
  return [...outcomes('match', rule.examples?.match), ...outcomes('no_match', rule.examples?.no_match)];
}

/** The cost of trying a rule's examples: characters of the match times characters of the examples. */
export function exampleWork({ match, examples }: Rule): number {
  const texts = [...(examples?.match ?? []), ...(examples?.no_match ?? [])];
  if (texts.length === 0) return 0;
  return JSON.stringify(match).length * texts.reduce((sum, it) => sum + it.length, 0);
}

/** The call that an example describes: `tool {json}`, or else a command line. Throws what `effectsOf` throws. */
export function toQuestion(text: string, effectsOf?: EffectsOf): PolicyQuestion {
  const { tool, input } = toCall(text) ?? { tool: 'terminal_execute', input: { command: text } };
  const known = effectsOf?.(tool, input);
  const question = { ...questionOf(tool, input), ...known };
  const destructive = known?.destructive ?? known?.effects?.some((it) => it.kind === 'delete') ?? false;
  return { ...question, destructive, effects: question.effects.map(normalised) };
}

function problemOf(rule: Rule, kind: 'match' | 'no_match', question: () => PolicyQuestion): string | undefined {
  try {
    const matches = ruleMatches(rule, question());
    if (matches === (kind === 'match')) return undefined;
    return matches ? 'the rule matches it, and it should not' : 'the rule does not match it, and it should';
  } catch (error) {
    return `it can't be judged: ${quoteForMessage((error as Error).message.replaceAll(/\s+/g, ' '))}`;
  }
}

function toCall(text: string): { tool: string; input: Record<string, unknown> } | undefined {
  const brace = text.indexOf('{');
  const tool = text.slice(0, Math.max(brace, 0)).trim();
  if (!/^[\w:.-]{1,128}$/.test(tool)) return undefined;
  const input = jsonOr(text.slice(brace), undefined);
  return isRecord(input) ? { tool, input } : undefined; // None is a command line such as `echo {a,b}`.
}

/** A question for a call whose tool is unknown: its path may be read, written and deleted, its command may be run. */
function questionOf(tool: string, { path, command }: Readonly<Record<string, unknown>>): PolicyQuestion {
  const runs = typeof command === 'string';
  const tier: Tier = runs ? 'execute' : 'write';
  const target = typeof path === 'string' ? path : undefined;
  const effects: Effect[] =
    target === undefined ? [] : (['read', 'write', 'delete'] as const).map((kind) => ({ kind, target }));
  return {
    tool,
    tier,
    destructive: false,
    session: 'example',
    principal: 'example',
    aliases: tool === 'terminal_execute' ? ['bash', 'execute_command'] : [],
    home: PLACE.home,
    workspace: PLACE.workspace,
    category: runs ? 'development' : 'filesystem',
    effects: runs ? [...effects, { kind: 'exec', target: command }] : effects,
    ...(runs && { command: parseCommand(command, PLACE) }),
  };
}

/** An effect with its target in the form that questions use. */
const normalised = (effect: Effect): Effect =>
  ['read', 'write', 'delete'].includes(effect.kind) ? { ...effect, target: toTarget(effect.target, PLACE) } : effect;

/** The caller that a rule asks for, so that its examples are tried as calls of that caller. */
function whoOf({
  principal,
  session,
  'session.sawUntrusted': sawUntrusted,
  when,
  all,
}: MatchSpec): Partial<Pick<PolicyQuestion, 'principal' | 'session' | 'sawUntrusted'>> {
  const named = (globs: string | readonly string[] | undefined) => [globs ?? []].flat()[0]?.replaceAll('*', 'x');
  const inner: ReturnType<typeof whoOf> = Object.assign({}, ...(all ?? []).map(whoOf));
  const who = { principal: named(principal ?? when?.principal), session: named(session ?? when?.session) };
  return {
    ...inner,
    ...(who.principal !== undefined && { principal: who.principal }),
    ...(who.session !== undefined && { session: who.session }),
    ...(sawUntrusted && { sawUntrusted }),
  };
}
