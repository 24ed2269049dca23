/** How `tools: {NAME: {decision: allow}}` combines with other rules about the same tool. Pure. */

import { compileText } from '../base/text/glob.ts';
import type { CompositionContext } from './composition.ts';
import type { PlacedRule } from './placed-rules.ts';
import type { MatchSpec } from './schema/match.ts';
import type { Rule } from './schema.ts';

/** Keys that say which tool a rule is about, and nothing about what a call does. */
const TOOL_KEYS: ReadonlySet<string> = new Set(['tool', 'tier', 'category']);

/** Whether a rule may match every call of the tool, whatever it does: `{ tool: git_commit }`, `{ tier: execute }`. */
export function isAboutTool(match: MatchSpec, name: string): boolean {
  const { tool } = match;
  const mayBe = tool === undefined || [tool].flat().some((it) => compileText(it).test(name));
  return mayBe && Object.keys(match).every((it) => TOOL_KEYS.has(it));
}

/** The tool that `tools.NAME.decision` allows; undefined for any other rule. */
const allowedTool = ({ rule, path }: PlacedRule): string | undefined =>
  path[0] === 'tools' && path[2] === 'decision' && rule.decision === 'allow' ? String(path[1]) : undefined;

/**
 * The parent's rules for a file that allows tools by name: rules that ask or deny only because of the tool no longer match those tools.
 * Rules about what a call does (paths, commands, hosts) stay. Complains about a rule that would leave the allowance without effect.
 */
export function withoutAllowedTools(
  { parent, file, widens, complain }: CompositionContext,
  rules: readonly Rule[],
): Rule[] {
  let keptRules = [...rules];
  for (const own of file.rules) {
    const name = allowedTool(own);
    if (name === undefined) continue;
    const { path } = own;
    const isObstacle = ({ decision, match }: Rule) => decision !== 'allow' && isAboutTool(match, name);
    const beside = file.rules.map(({ rule }) => rule).find(isObstacle);
    const disabled = parent.rules.find((it) => it.code === 'TOOL_DISABLED' && isObstacle(it));
    const obstacle = beside ?? disabled;
    if (obstacle) {
      const why = `rule \`${obstacle.id}\` (${obstacle.source}) says ${obstacle.decision} for all of its calls`;
      complain(file.positions.at(path), `${path.join('.')}: allow has no effect, since ${why}; take one of them out`);
      continue;
    }
    // If the parent does not allow the tool yet, `replaces` in compose.ts reports the widening.
    const isNoted = !parent.rules.some(({ id, decision }) => id === own.rule.id && decision === 'allow');
    keptRules = keptRules.flatMap((rule) => {
      if (!isObstacle(rule)) return rule;
      const how = `allow is less strict than ${rule.decision} (rule \`${rule.id}\`, ${rule.source})`;
      if (!isNoted) widens(path, how, `rules.${rule.id}`);
      const isOnlyThis = [rule.match.tool].flat().every((it) => it === name);
      return isOnlyThis ? [] : { ...rule, match: { all: [rule.match, { not: { tool: name } }] } };
    });
  }
  return keptRules;
}
