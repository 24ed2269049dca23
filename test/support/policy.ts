/** Makes policies and questions by hand, for tests and benches of decisions. */
import type { Decision, Effect, Tier } from '../../src/base/call.ts';
import { TIERS } from '../../src/base/result-shapes.ts';
import type { ParsedCommand, PolicyQuestion, SimpleCommand } from '../../src/policy/question.ts';
import type { MatchSpec } from '../../src/policy/schema/match.ts';
import type { Policy, Rule } from '../../src/policy/schema.ts';

type Tiers = Partial<Record<Tier, Decision>>;

/** Makes a policy; tiers not named are allowed. */
export function policyOf(
  rules: readonly Rule[],
  { tiers = {}, and = [] }: { tiers?: Tiers; and?: Policy[] } = {},
): Policy {
  const entries = TIERS.map((tier) => {
    const decision = tiers[tier] ?? 'allow';
    return [tier, { id: `tiers.${tier}.decision`, decision, reason: 'of the tier', source: 'policy.yaml:2' }];
  });
  return {
    name: 'test',
    version: 'sha256:0',
    rules,
    rateLimits: [],
    open: [],
    and,
    tiers: Object.fromEntries(entries) as Policy['tiers'],
    approvals: { timeoutMs: 1000, headless: 'deny', rememberMaxMs: 0 },
  };
}

let rulesMade = 0;

export function ruleOf(decision: Decision, match: MatchSpec, rest: Partial<Rule> = {}): Rule {
  rulesMade += 1;
  return {
    id: `rule-${rulesMade}`,
    decision,
    match,
    reason: 'of the test',
    source: `policy.yaml:${rulesMade}`,
    ...rest,
  };
}

export function questionOf(rest: Partial<PolicyQuestion> = {}): PolicyQuestion {
  return {
    tool: 'file_read',
    aliases: ['read_file'],
    tier: 'read_only',
    category: 'filesystem',
    destructive: false,
    effects: [],
    principal: 'local',
    session: 's1',
    home: '/home/me',
    ...rest,
  };
}

/**
 * Makes a simple command from words separated by spaces; `$x` is a word that only the shell knows, and so is a
 * program that it starts.
 */
export function simpleOf(text: string, rest: Partial<SimpleCommand> = {}): SimpleCommand {
  const words = text.split(' ').map((it) => (it.startsWith('$') ? undefined : it));
  const program = words[0]?.slice(words[0].lastIndexOf('/') + 1);
  const unknown = words[0] === undefined ? 'a dynamic word in command position' : undefined;
  return { text, words, program, programPath: program && `/usr/bin/${program}`, unknown, ...rest };
}

/** Makes the question of a command line from simple commands, given as text or objects. */
export function lineOf(
  commands: readonly (string | SimpleCommand)[],
  rest: Partial<ParsedCommand> = {},
): PolicyQuestion {
  const simple = commands.map((it) => (typeof it === 'string' ? simpleOf(it) : it));
  return questionOf({
    tool: 'terminal_execute',
    aliases: ['bash'],
    tier: 'execute',
    category: 'development',
    effects: [{ kind: 'exec', target: simple.map((it) => it.text).join('; ') }],
    command: { commands: simple, redirects: [], mentions: [], unknown: [], ...rest },
  });
}

/** Makes a question with one effect. */
export const effectOf = (kind: Effect['kind'], target: string): PolicyQuestion =>
  questionOf({ effects: [{ kind, target }] });
