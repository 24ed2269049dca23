/** The rules of a policy file, each with its place in the file, for messages that name it. */

import type { PositionedYaml, ValuePath } from './positioned-yaml.ts';
import { withoutIgnoreCase } from './schema/ignore-case.ts';
import type { PolicyFile } from './schema/policy-file.ts';
import type { Rule } from './schema.ts';

/** A rule and the path to it in its file. */
export interface PlacedRule {
  readonly rule: Rule;
  readonly path: ValuePath;
}

/** All rules of a file in order; rules from `tools` come first. */
export function rulesOf(data: PolicyFile, where: PositionedYaml): PlacedRule[] {
  const { disable, ...tools } = data.tools ?? {};
  const disabled: PlacedRule[] = disable?.length
    ? [
        placed(where, ['tools', 'disable'], {
          id: 'tools.disable',
          match: { tool: disable },
          decision: 'deny',
          reason: 'The policy switches this tool off.',
          code: 'TOOL_DISABLED',
        }),
      ]
    : [];
  const named = Object.entries(tools).flatMap(([name, { decision }]) =>
    decision === undefined
      ? []
      : placed(where, ['tools', name, 'decision'], {
          id: `tools.${name}.decision`,
          match: { tool: name },
          decision,
          reason: `The policy says ${decision} for this tool.`,
        }),
  );
  const rules = (data.rules ?? []).map(({ id, match, decision, reason, sensitive, preview, examples }, index) =>
    placed(where, ['rules', index], {
      id,
      match: withoutIgnoreCase(match),
      decision,
      reason,
      ...(sensitive && decision === 'deny' && { code: 'SENSITIVE_FILE' as const }),
      ...(preview && { preview }),
      ...(examples && { examples }),
    }),
  );
  return [...disabled, ...named, ...rules];
}

const placed = (where: PositionedYaml, path: ValuePath, rule: Omit<Rule, 'source'>): PlacedRule => ({
  path,
  rule: { ...rule, source: where.line(path) },
});
