/** The shape of a policy file, as far as this version enforces it; docs/policy.md says what more there will be. */
import * as z from 'zod';
import type { Decision, Tier } from '../call.ts';

const decision = z.enum(['allow', 'ask', 'deny']);
const tier = z.strictObject({ decision }).optional();

export const policyFile = z.strictObject({
  version: z.literal(1).optional(),
  tiers: z.strictObject({ read_only: tier, write: tier, execute: tier, external_api: tier }).optional(),
});

export interface TierRule {
  readonly decision: Decision;
  /** `tiers.<tier>.decision`. */
  readonly id: string;
  readonly reason: string;
  /** `file:line`. */
  readonly source: string;
}

export interface Policy {
  /** Built-in name, or the file's path. */
  readonly name: string;
  readonly tiers: Readonly<Record<Tier, TierRule>>;
}
