/** Combines policies: a file with the policy that it extends, and several policies that must all agree. Pure. */

import { createHash, hash } from 'node:crypto';
import type { Decision, Tier } from '../base/call.ts';
import { TIERS } from '../base/result-shapes.ts';
import { canonical } from '../base/text/values.ts';
import type { CompositionContext, ReadPolicyFile } from './composition.ts';
import { covers, parseNetworkEntry, showNetworkRule } from './network.ts';
import { escapeGlob } from './paths.ts';
import type { PlacedRule } from './placed-rules.ts';
import type { ValuePath } from './positioned-yaml.ts';
import type { MatchSpec } from './schema/match.ts';
import type { PolicyFile } from './schema/policy-file.ts';
import { LOCKS } from './schema/tiers.ts';
import {
  type ApprovalSettings,
  type ArgumentRule,
  type Policy,
  type RateLimit,
  type Rule,
  type RuleFacts,
  TIER_BOUNDS,
  type TierBound,
  type TierRule,
} from './schema.ts';
import { composeToolBounds, daemonBound } from './tool-bounds.ts';
import { withoutAllowedTools } from './tool-decisions.ts';

const STRICTNESS: Record<Decision, number> = { allow: 0, ask: 1, deny: 2 };
const isLessStrict = (a: Decision, b: Decision): boolean => STRICTNESS[a] < STRICTNESS[b];

/** Built-in policies whose `open` list is empty. */
const CLOSED: ReadonlySet<string> = new Set(['strict', 'unattended', 'read-only', 'plan', 'subagent']);

/** Composes one policy from a file and its parent, with a problem for every value that widens what the parent has not opened. */
export function compose(parent: Policy, file: ReadPolicyFile): { policy: Policy; problems: string[] } {
  const problems: string[] = [];
  const complain = (location: string, problem: string) => void problems.push(`${location}: ${problem}`);
  const it: CompositionContext = {
    parent,
    file,
    complain,
    widens(path, how, needs) {
      if (isOpen(parent.open, needs)) return;
      const way = CLOSED.has(parent.name) ? '; extend `default`, which does, and narrow that' : '';
      complain(
        file.positions.at(path),
        `${path.join('.')}: ${how}, and ${parent.name} does not open \`${needs}\`${way}`,
      );
    },
  };
  refuseDuplicates(it);
  const environment = composeEnvironment(it);
  const toolBounds = composeToolBounds(parent.toolBounds, file.data.tools);
  const policy = sealed({
    name: file.name,
    tiers: byTier((tier) => composeTier(it, tier)),
    rules: composeRules(it),
    rateLimits: composeRateLimits(it),
    ...composeArguments(it),
    approvals: composeApprovals(it),
    ...(environment && { environment }),
    ...(toolBounds && { toolBounds }),
    open: composeOpen(it),
    and: [],
  });
  return { policy, problems };
}

/** A policy in which both take part: each decides for itself and the strictest answer counts, so neither can widen the other. */
export function narrow(policy: Policy, by: Policy): Policy {
  const known = new Set([policy, ...policy.and].map(versionOf));
  const further = [by, ...by.and].filter((it) => !known.has(versionOf(it)));
  if (further.length === 0) return policy;
  const and = [...policy.and, ...further.map((it) => (it.and.length === 0 ? it : { ...it, and: [] }))];
  const version = hashOf([versionOf(policy), ...and.map(versionOf)]);
  return { ...policy, name: `${policy.name} + ${by.name}`, version, and };
}

function composeTier({ parent, file, widens }: CompositionContext, tier: Tier): TierRule {
  const before = parent.tiers[tier];
  const own: TierEntry | undefined = file.data.tiers?.[tier];
  if (!own) return before;
  const path = ['tiers', tier];
  const needs = `tiers.${tier}`;
  const decision = own.decision ?? before.decision;
  if (isLessStrict(decision, before.decision)) {
    widens([...path, 'decision'], `${decision} is less strict than ${before.decision} (${before.source})`, needs);
  }
  const approve = approveOf({ parent, file, widens }, tier);
  const bounds: Partial<Record<TierBound, number>> = {};
  for (const key of TIER_BOUNDS) {
    const most = before[key] ?? daemonBound(tier, key);
    const value = own[key] ?? before[key];
    if (value !== undefined) bounds[key] = value;
    if ((own[key] ?? 0) > most) widens([...path, key], `${own[key]} is more than ${most} (${before.source})`, needs);
  }
  const network = networkOf({ parent, file, widens }, tier);
  const networkAsks = networkAsksOf({ parent, file, widens }, tier);
  const locks = own.locks ?? before.locks;
  if (own.locks && before.locks && LOCKS.indexOf(own.locks) < LOCKS.indexOf(before.locks))
    widens([...path, 'locks'], `${own.locks} locks less than ${before.locks} (${before.source})`, needs);
  const unixSockets = own.unixSockets ?? before.unixSockets;
  if (own.unixSockets === 'own' && before.unixSockets === 'none')
    widens([...path, 'unixSockets'], `own is more than none (${before.source})`, needs);
  const forward = own.forward ?? before.forward;
  if (own.forward === 'allow' && before.forward === 'deny')
    widens([...path, 'forward'], `allow is more than deny (${before.source})`, needs);
  const previewNetwork = own.previewNetwork ?? before.previewNetwork;
  if (own.previewNetwork && !before.previewNetwork)
    widens([...path, 'previewNetwork'], `true is more than false (${before.source})`, needs);
  const preview = own.preview ?? before.preview;
  const unchanged = own.decision === undefined || own.decision === before.decision;
  return {
    id: before.id,
    decision,
    reason: own.reason ?? (unchanged ? before.reason : `the policy says ${decision}`),
    source: own.decision === undefined ? before.source : file.positions.line([...path, 'decision']),
    ...(approve && { approveDestructive: approve }),
    ...(network && { network }),
    ...(networkAsks && { networkAsks }),
    ...bounds,
    ...(locks && { locks }),
    ...(unixSockets && { unixSockets }),
    ...(forward && { forward }),
    ...(previewNetwork && { previewNetwork }),
    ...(preview && { preview }),
  };
}

/** The entry of a file for one tier, with the keys of all tiers. */
type TierEntry = NonNullable<NonNullable<PolicyFile['tiers']>['execute']>;

type NetworkContext = Pick<CompositionContext, 'parent' | 'file' | 'widens'>;

/** The network list of a tier. A file's list replaces its parent's and is narrower if every entry lies within one of the parent's. */
function networkOf({ parent, file, widens }: NetworkContext, tier: Tier): TierRule['network'] {
  const before = parent.tiers[tier].network;
  const own = (file.data.tiers?.[tier] as TierEntry | undefined)?.network;
  if (own === undefined) return before;
  if (own === 'none') return undefined;
  const rules = own.allow.map(parseNetworkEntry);
  const allowed = before === 'any' ? undefined : (before ?? []);
  for (const [index, rule] of rules.entries()) {
    if (!allowed || allowed.some((it) => covers(it, rule))) continue;
    const how = `${showNetworkRule(rule)} is not among what ${parent.name} lets calls of the tier connect to`;
    widens(['tiers', tier, 'network', 'allow', index], how, `tiers.${tier}`);
  }
  return rules;
}

/** Whether hosts are asked about. A file that names `network` says it itself; without `ask: true` it closes the asking. */
function networkAsksOf({ parent, file, widens }: NetworkContext, tier: Tier): true | undefined {
  const before = parent.tiers[tier];
  const own = (file.data.tiers?.[tier] as TierEntry | undefined)?.network;
  if (own === undefined) return before.networkAsks;
  if (own === 'none' || own.ask !== true) return undefined;
  const how = `a person could open hosts that ${parent.name} refuses`;
  if (!before.networkAsks && before.network !== 'any') widens(['tiers', tier, 'network', 'ask'], how, `tiers.${tier}`);
  return true;
}

function approveOf({ parent, file, widens }: Pick<CompositionContext, 'parent' | 'file' | 'widens'>, tier: Tier) {
  const before = parent.tiers[tier].approveDestructive;
  const own = file.data.tiers?.[tier]?.approve;
  if (own === undefined) return before;
  const path = ['tiers', tier, 'approve'];
  if (own.length === 0) {
    if (before) widens(path, `nobody would be asked about destructive calls (${before.source})`, `tiers.${tier}`);
    return undefined;
  }
  const facts: RuleFacts = {
    id: path.join('.'),
    decision: 'ask',
    reason: 'What it destroys may be lost for good.',
    source: file.positions.line(path),
  };
  return facts;
}

function refuseDuplicates({ file, complain }: CompositionContext): void {
  const seen = new Map<string, ValuePath>();
  for (const { rule, path } of file.rules) {
    const before = seen.get(rule.id);
    if (before)
      complain(
        file.positions.at([...path, 'id']),
        `${rule.id}: a rule of this id stands at ${file.positions.line(before)}`,
      );
    else seen.set(rule.id, path);
  }
  for (const [index, { sensitive, preview, decision }] of (file.data.rules ?? []).entries()) {
    const at = (key: string) => file.positions.atKey(['rules', index, key]);
    if (sensitive && decision !== 'deny') complain(at('sensitive'), 'sensitive is for rules whose decision is deny');
    if (preview && decision !== 'ask') complain(at('preview'), 'preview is for rules whose decision is ask');
  }
}

function composeRules(it: CompositionContext): Rule[] {
  const { parent, file } = it;
  const replaced = new Set(file.rules.filter((own) => replaces(it, own)).map(({ rule }) => rule.id));
  const keptRules = parent.rules.filter(({ id }) => !replaced.has(id)).map((rule) => showing(it, rule));
  if (file.data.secrets?.show && !keptRules.some((rule) => rule.code === 'SENSITIVE_FILE'))
    it.complain(file.positions.at(['secrets', 'show']), 'secrets.show: no rule on secrets comes from the parent');
  return [...withoutAllowedTools(it, keptRules), ...file.rules.map(({ rule }) => rule)];
}

/** The parent's rule without the files that `secrets.show` names, if it is a rule on secrets. */
function showing({ file, widens }: CompositionContext, rule: Rule): Rule {
  const shown = file.data.secrets?.show ?? [];
  if (rule.code !== 'SENSITIVE_FILE' || shown.length === 0) return rule;
  for (const index of shown.keys())
    widens(['secrets', 'show', index], `${rule.id} may hide this (${rule.source})`, `rules.${rule.id}`);
  // Examples were tried with the rule as its author wrote it.
  const { examples: _, ...kept } = rule;
  return { ...kept, match: { all: [rule.match], not: { path: shown } } };
}

/** Whether a rule replaces its parent's rule of the same id; otherwise it is added to the parent's rules. */
function replaces({ parent, file, widens, complain }: CompositionContext, { rule, path }: PlacedRule): boolean {
  const before = rule.id === 'tools.disable' ? undefined : parent.rules.find(({ id }) => id === rule.id);
  const decisionPath = path[0] === 'rules' ? [...path, 'decision'] : path;
  if (before && path[0] === 'rules') {
    if (!isOpen(parent.open, `rules.${rule.id}`))
      complain(
        file.positions.at([...path, 'id']),
        `${rule.id}: ${parent.name} has this rule (${before.source}) and does not open it`,
      );
    return true;
  }
  if (before && !isLessStrict(rule.decision, before.decision)) return true;
  // Only an allow rule replaces the tier's decision.
  if (before)
    widens(decisionPath, `${rule.decision} is less strict than ${before.decision} (${before.source})`, 'rules');
  else if (rule.decision === 'allow') widens(decisionPath, 'a rule that allows', 'rules');
  return before !== undefined;
}

/** Limits for the same calls and counted the same way replace the parent's as a group (a short span and a long one); others are added. */
function composeRateLimits({ parent, file, widens }: CompositionContext): RateLimit[] {
  const keyOf = ({ tool, per }: Pick<RateLimit, 'tool' | 'per'>) => JSON.stringify([per, [...tool].sort()]);
  const own = (file.data.rateLimits ?? []).map(({ tool, calls, perMs, per }, index): RateLimit => {
    return { tool: [tool].flat(), calls, perMs, per, source: file.positions.line(['rateLimits', index]) };
  });
  const byKey = Map.groupBy(own, keyOf);
  for (const before of parent.rateLimits) {
    const those = byKey.get(keyOf(before)) ?? [];
    if (those.some(({ calls, perMs }) => calls <= before.calls && perMs >= before.perMs)) continue;
    const [first] = those;
    if (!first) continue;
    const how = `${first.calls} in ${first.perMs} ms may be more than ${before.calls} in ${before.perMs} ms (${before.source})`;
    widens(['rateLimits', own.indexOf(first), 'calls'], how, 'rateLimits');
  }
  return [...parent.rateLimits.filter((it) => !byKey.has(keyOf(it))), ...own];
}

/** The parent's come last, so that no child takes back what it sets. */
function composeArguments({ parent, file }: CompositionContext): Pick<Policy, 'arguments'> {
  const own = (file.data.arguments ?? []).map(({ tool, ...parts }, index): ArgumentRule => {
    return { tool: [tool].flat(), parts, source: file.positions.line(['arguments', index]) };
  });
  const all = [...own, ...(parent.arguments ?? [])];
  return all.length > 0 ? { arguments: all } : {};
}

function composeApprovals({ parent, file, widens }: CompositionContext): ApprovalSettings {
  const before = parent.approvals;
  const own = file.data.approvals ?? {};
  for (const key of ['timeoutMs', 'rememberMaxMs'] as const) {
    const value = own[key] ?? 0;
    if (value > before[key]) widens(['approvals', key], `${value} is more than ${before[key]}`, 'approvals');
  }
  if (own.headless === 'wait' && before.headless === 'deny')
    widens(['approvals', 'headless'], 'wait is less strict than deny', 'approvals');
  return {
    timeoutMs: own.timeoutMs ?? before.timeoutMs,
    headless: own.headless ?? before.headless,
    rememberMaxMs: own.rememberMaxMs ?? before.rememberMaxMs,
  };
}

function composeEnvironment({ parent, file, widens }: CompositionContext): readonly string[] | undefined {
  const before = parent.environment;
  const own = file.data.environment;
  if (!own || !before) return own ?? before;
  const covers = (wide: string, name: string) =>
    wide.endsWith('*') ? name.startsWith(wide.slice(0, -1)) : wide === name;
  for (const [index, name] of own.entries()) {
    if (!before.some((wide) => covers(wide, name)))
      widens(['environment', index], `${name} is none of ${before.join(', ')}`, 'environment');
  }
  return own;
}

/** The `open` list of the child. Only what it names itself is open to its own children, whatever the parent opened. */
function composeOpen({ parent, file, complain }: CompositionContext): readonly string[] {
  const open = file.data.open ?? [];
  for (const [index, name] of open.entries()) {
    if (!isOpen(parent.open, name))
      complain(file.positions.at(['open', index]), `open.${index}: ${parent.name} does not open \`${name}\``);
  }
  return open;
}

const isOpen = (open: readonly string[], name: string): boolean =>
  open.some((it) => it === name || name.startsWith(`${it}.`));

function byTier(rule: (tier: Tier) => TierRule): Policy['tiers'] {
  return Object.fromEntries(TIERS.map((tier) => [tier, rule(tier)])) as unknown as Policy['tiers'];
}

const sealed = (policy: Omit<Policy, 'version'>): Policy => ({ ...policy, version: versionOf(policy) });

/** Hash of what one layer decides by; leaves out positions, reasons, examples and what children may widen. */
function versionOf(policy: Omit<Policy, 'version'>): string {
  const { tiers, rules, rateLimits, approvals, toolBounds, environment } = policy;
  const perTier = TIERS.map((tier) => {
    const { decision, approveDestructive, network, ...rest } = tiers[tier];
    const hosts = network === undefined || network === 'any' ? [] : [network];
    return [
      tier,
      decision,
      approveDestructive !== undefined,
      ...TIER_BOUNDS.map((key) => rest[key] ?? null),
      rest.locks ?? null,
      rest.unixSockets ?? null,
      ...(rest.forward ? [{ forward: rest.forward }] : []),
      ...(rest.preview ? ['preview'] : []),
      ...(rest.previewNetwork ? ['previewNetwork'] : []),
      ...(rest.networkAsks ? ['networkAsks'] : []),
      ...hosts,
    ];
  });
  const deciding = rules.map(({ id, match, decision, code = null, preview }) => {
    return { id, match, decision, code, preview };
  });
  const limits = rateLimits.map(({ source: _, ...it }) => it);
  const narrowing = policy.arguments?.map(({ source: _, ...it }) => it) ?? [];
  const last = [toolBounds ?? null, environment ?? null, ...(narrowing.length > 0 ? [narrowing] : [])];
  return hashOf([perTier, sortedById(deciding), limits, approvals, ...last]);
}

const sortedById = <T extends { id: string }>(items: readonly T[]): T[] =>
  items.toSorted((a, b) => (a.id < b.id ? -1 : Number(a.id > b.id)));

const hashOf = (value: unknown): string => `sha256:${createHash('sha256').update(canonical(value)).digest('hex')}`;

/** Allows everything. A file that is only a further layer extends it, so that the layer restricts nothing but what the file says. */
export const NEUTRAL: Policy = rootPolicy('the policy in force', 'allow', {
  approvals: { timeoutMs: 86_400_000, headless: 'wait', rememberMaxMs: 28_800_000 },
  open: [],
  network: 'any',
});

/** The parent of `floor`: denies everything and opens everything. */
export const ROOT: Policy = rootPolicy('nothing', 'deny', {
  approvals: { timeoutMs: 86_400_000, headless: 'wait', rememberMaxMs: 28_800_000 },
  open: ['tiers', 'rules', 'approvals', 'rateLimits', 'environment', 'secrets'],
});

interface RootPolicyOptions extends Pick<Policy, 'approvals' | 'open'> {
  readonly network?: 'any';
}

function rootPolicy(name: string, decision: Decision, { network, ...rest }: RootPolicyOptions): Policy {
  const tier = (it: Tier): TierRule => ({
    id: `tiers.${it}.decision`,
    decision,
    reason: 'the policy says nothing about it',
    source: name,
    ...(network && (it === 'execute' || it === 'external_api') && { network }),
  });
  return sealed({ name, tiers: byTier(tier), rules: [], rateLimits: [], and: [], ...rest });
}

/**
 * Rewrites the policy of a folder for the folder that contains it; `prefix` is the path from the outer folder to the inner one, '' if they
 * are the same.
 */
export function rebase(policy: Policy, prefix: string): Policy {
  if (prefix === '') return policy;
  const version = `sha256:${hash('sha256', `${policy.version}\0${prefix}`, 'hex')}`;
  const rules = policy.rules.map((rule) => ({ ...rule, match: rebaseMatch(rule.match, escapeGlob(prefix)) }));
  return { ...policy, version, rules };
}

function rebaseMatch(match: MatchSpec, prefix: string): MatchSpec {
  const moved = (globs: string | string[] | undefined) =>
    globs === undefined ? undefined : [globs].flat().map((it) => (/^(\/|~(\/|$))/.test(it) ? it : `${prefix}/${it}`));
  const { path, read, write, delete: deletes, all, any, not, ...rest } = match;
  const paths = { path: moved(path), read: moved(read), write: moved(write), delete: moved(deletes) };
  const inner = {
    all: all?.map((it) => rebaseMatch(it, prefix)),
    any: any?.map((it) => rebaseMatch(it, prefix)),
    not: not && rebaseMatch(not, prefix),
  };
  const present = Object.entries({ ...paths, ...inner }).filter(([, it]) => it !== undefined);
  return { ...rest, ...Object.fromEntries(present) };
}
