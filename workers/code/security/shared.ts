/** Rules of several languages: what they find, and secrets in code. */
import { KNOWN_SECRET, SECRET_NAME, SECRET_VALUE } from './patterns.ts';
import type { SecurityRule } from './rule.ts';

type Found = Pick<SecurityRule, 'rule' | 'severity' | 'message'>;

const found = (rule: string, severity: Found['severity'], message: string): Found => ({ rule, severity, message });

export const CODE_OF_TEXT = found('eval', 'high', 'Text is run as code; whoever can change the text runs code here.');
export const BUILT_QUERY = found('sql-injection', 'critical', 'A query is built of parts; use parameters.');
export const FORGEABLE_HASH = found('weak-hash', 'medium', 'MD5 and SHA-1 can be forged; use SHA-256.');
export const UNCHECKED_CERTIFICATES = found(
  'certificates-unchecked',
  'high',
  'Certificates are not checked, so that anyone in between can read along.',
);
export const REQUESTED_PATH = found(
  'path-traversal',
  'high',
  'A path is built of what a request says; check that it stays in its directory.',
);
export const BUILT_COMMAND = found(
  'command-injection',
  'critical',
  'A shell command is built of parts; pass values as arguments of their own.',
);
export const UNSAFE_HTML = found('unsafe-html', 'high', 'Text becomes HTML; a script in it would run.');

/** Rules for names that get a value, and for literals that are a key of a known kind. */
export const secretsIn = (named: readonly string[], literals: readonly string[]): Omit<SecurityRule, 'family'>[] => [
  {
    ...found('secret-in-code', 'high', 'A secret stands in the code; read it from the environment.'),
    kinds: named,
    fields: { key: SECRET_NAME, value: SECRET_VALUE },
  },
  {
    ...found('secret-in-code', 'critical', 'A key of a known kind stands in the code; revoke it.'),
    kinds: literals,
    fields: { text: KNOWN_SECRET },
  },
];
