import type { PlacedRule } from './placed-rules.ts';
import type { PositionedYaml, ValuePath } from './positioned-yaml.ts';
import type { PolicyFile } from './schema/policy-file.ts';
import type { Policy } from './schema.ts';

/** A policy file that was read: its data, and the position of each value. */
export interface ReadPolicyFile {
  readonly name: string;
  readonly data: PolicyFile;
  readonly positions: PositionedYaml;
  /** The file's own rules, including those from `tools`; see `rulesOf`. */
  readonly rules: readonly PlacedRule[];
}

/** One file being composed onto its parent. Widening is a problem unless the parent opens what the file widens. */
export interface CompositionContext {
  readonly parent: Policy;
  readonly file: ReadPolicyFile;
  /** Notes that the value at `path` widens, unless the parent opens one of `needs`. */
  widens(path: ValuePath, how: string, needs: string): void;
  complain(location: string, problem: string): void;
}
