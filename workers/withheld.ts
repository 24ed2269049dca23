/** What a command's sandbox kept from it, told when the command failed: it may be why. */
import type { WithheldPaths } from '../src/call.ts';
import type { Masks } from '../src/sandbox/masks.ts';
import type { PathRules } from './path-rules.ts';

/** Paths of each kind that are listed; a model pays for every one. */
const LISTED_MAX = 20;

/** Each hidden path comes with the rule that hides it, where it is a rule of the policy. */
export function toWithheld({ hidden, readOnly }: Masks, rules: PathRules): WithheldPaths {
  return {
    hidden: hidden.slice(0, LISTED_MAX).map(({ path }) => {
      const rule = rules.ruleOn('read', path);
      return { path, ...(rule !== undefined && { rule }) };
    }),
    count: hidden.length,
    readOnly: readOnly.slice(0, LISTED_MAX).map((path) => path || '.'),
  };
}
