/** A policy as a person's answers at doors have widened it for one session: secrets that are shown, folders and services for commands. Pure. */
import { escapeGlob } from '../../policy/paths.ts';
import type { Policy, Rule } from '../../policy/schema.ts';
import type { Openings } from '../../store/approvals/approval.ts';

/**
 * The policy with what was opened. Its version stays: other answers hold, since no rule became stricter. Rules on secrets
 * that a person wrote stay as they are; only those that are built in make room.
 */
export function opened(policy: Policy, { secrets, folders, services }: Openings): Policy {
  const shown = secrets.flatMap((it) => [escapeGlob(it), `${escapeGlob(it)}/**`]);
  const showing = (rule: Rule): Rule =>
    mayOpen(rule) && shown.length > 0 ? { ...rule, match: { all: [rule.match], not: { path: shown } } } : rule;
  const inLayer = (it: Policy): Policy => ({ ...it, rules: it.rules.map(showing), and: it.and.map(inLayer) });
  return {
    ...inLayer(policy),
    ...(folders.length > 0 && { folders }),
    ...(services.length > 0 && { services }),
  };
}

/** Whether a person's answer can open what a rule hides. */
export const mayOpen = ({ code, source }: Pick<Rule, 'code' | 'source'>): boolean =>
  code === 'SENSITIVE_FILE' && source.startsWith('built-in:');
