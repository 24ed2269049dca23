/** What differs between two policies, and which examples of either they decide differently. Pure. */
import type { Decision } from '../base/call.ts';
import { decide } from './decide.ts';
import { showNetworkRule } from './network.ts';
import { type EffectsOf, toQuestion } from './rule-examples.ts';
import type { Policy, Rule } from './schema.ts';

/** One setting on which two policies differ; undefined on the side that lacks it. */
export interface PolicyDifference {
  readonly what: string;
  readonly old: string | undefined;
  readonly new: string | undefined;
}

/** An example that the two decide differently. */
export interface ExampleDifference {
  readonly example: string;
  readonly old: Decision;
  readonly new: Decision;
}

/** Tiers, rules and other settings that differ, sorted by name; source positions and reasons are not compared. */
export function differences(old: Policy, by: Policy): PolicyDifference[] {
  const [before, after] = [factsOf(old), factsOf(by)];
  const names = [...new Set([...before.keys(), ...after.keys()])].sort();
  return names.map((what) => ({ what, old: before.get(what), new: after.get(what) })).filter((it) => it.old !== it.new);
}

/** The examples of both policies that the two decide differently. Throws what `effectsOf` throws. */
export function decidedDifferently(old: Policy, by: Policy, effectsOf?: EffectsOf): ExampleDifference[] {
  const examples = new Set([...old.rules, ...by.rules].flatMap(examplesOf));
  return [...examples]
    .map((example) => {
      const question = toQuestion(example, effectsOf);
      return { example, old: decide(old, question).decision, new: decide(by, question).decision };
    })
    .filter((it) => it.old !== it.new);
}

const examplesOf = ({ examples }: Rule): readonly string[] => [
  ...(examples?.match ?? []),
  ...(examples?.no_match ?? []),
];

function factsOf({
  tiers,
  rules,
  rateLimits,
  approvals,
  environment,
  toolBounds = {},
  ...policy
}: Policy): Map<string, string> {
  const facts = new Map<string, string>();
  for (const [tier, { id: _, reason: __, source: ___, approveDestructive, network, ...said }] of Object.entries(
    tiers,
  )) {
    for (const [key, value] of Object.entries(said)) facts.set(`tiers.${tier}.${key}`, `${value}`);
    if (network)
      facts.set(`tiers.${tier}.network`, network === 'any' ? 'any' : network.map(showNetworkRule).join(', '));
    if (approveDestructive) facts.set(`tiers.${tier}.approve`, 'destructive');
  }
  for (const { id, match, decision, code } of rules) {
    const name = id.startsWith('tools.') ? id : `rules.${id}`;
    // Several rules may have the same name: each file of a chain can disable tools.
    const before = facts.get(name);
    const said = `${decision} ${JSON.stringify(match)}${code ? ` ${code}` : ''}`;
    facts.set(name, before === undefined ? said : `${before}, ${said}`);
  }
  for (const { tool, per, calls, perMs } of rateLimits) {
    const name = `rateLimits.${tool.join(',')} per ${per}`;
    const before = facts.get(name);
    const said = `${calls} in ${perMs} ms`;
    facts.set(name, before === undefined ? said : `${before}, ${said}`);
  }
  for (const [at, { tool, parts }] of (policy.arguments ?? []).entries())
    facts.set(`arguments.${at} of ${tool.join(',')}`, JSON.stringify(parts));
  for (const [key, value] of Object.entries(approvals)) facts.set(`approvals.${key}`, `${value}`);
  for (const [tool, bounds] of Object.entries(toolBounds))
    for (const [key, value] of Object.entries(bounds)) facts.set(`tools.${tool}.${key}`, `${value}`);
  if (environment) facts.set('environment', environment.join(', ') || 'none');
  return facts;
}
