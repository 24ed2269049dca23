/** What a rule about unsafe code says: kinds of nodes of the syntax tree, and patterns for their parts. */
import type { SecurityFinding } from '../../../src/tools/source/analysis.ts';
import type { ParsedLanguage } from '../../symbols/source-languages.ts';

type Family = 'script' | 'python' | 'go' | 'rust';

export interface SecurityRule {
  readonly rule: string;
  readonly severity: SecurityFinding['severity'];
  readonly message: string;
  readonly family: Family;
  /** The kinds of nodes that may match. */
  readonly kinds: readonly string[];
  /** Patterns, by field, that the texts of these parts must match; a missing part does not match. */
  readonly fields: Readonly<Record<string, RegExp>>;
  /** Patterns, by field, that must not match. */
  readonly except?: Readonly<Record<string, RegExp>>;
}

export const familyOf = (language: ParsedLanguage): Family =>
  language === 'typescript' || language === 'tsx' ? 'script' : language;

/** Rules of one language. Those that name no kinds are about calls. */
export const rules = (family: Family, list: readonly RuleOfLanguage[]): SecurityRule[] =>
  list.map((it) => ({ kinds: [family === 'python' ? 'call' : 'call_expression'], ...it, family }));

type RuleOfLanguage = Omit<SecurityRule, 'family' | 'kinds'> & Partial<Pick<SecurityRule, 'kinds'>>;
