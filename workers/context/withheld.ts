/** Lists what the sandbox kept from a failed command: that may be why it failed. */
import type { WithheldPaths } from '../../src/call.ts';
import type { Masks } from '../../src/sandbox/masks.ts';
import type { PathRules } from './path-rules.ts';

/** The most paths listed of each kind; a model pays for each. */
const LISTED_MAX = 20;

/** Names the policy rule for each hidden path, if a rule hides it. */
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
