/** Makes the error of a call that the policy denies: the denied part of the call, the rule, and what to ask for. */
import { ToolError } from '../base/errors.ts';
import { decide, type PolicyDecision } from '../policy/decide.ts';
import { suggest } from '../policy/explain.ts';
import type { ParsedCommand, PolicyQuestion } from '../policy/question.ts';
import type { Policy } from '../policy/schema.ts';

/** The error of a denied call; `decided` is the policy's decision on `question`. */
export function refusalOf(policy: Policy, decided: PolicyDecision, question: PolicyQuestion): ToolError {
  const { by, unknown } = decided;
  const { code = 'POLICY_DENIED', id, reason, source } = by;
  const target = refusedOf(policy, decided, question) ?? question.tool;
  const what = code === 'SENSITIVE_FILE' ? 'is refused: it may hold secrets' : `is denied by rule \`${id}\``;
  const message = `\`${question.tool}\` on \`${short(target)}\` ${what} (policy \`${policy.name}\`): ${reason}`;
  const suggestion =
    code === 'SENSITIVE_FILE'
      ? 'Ask the person for the information that you need.'
      : suggest(decided, policy, question);
  return new ToolError(code, message, {
    rule: id,
    suggestion,
    details: { decision: 'deny', source, ...(unknown.length > 0 && { unknown: unknown.slice(0, 8) }) },
  });
}

/** The part of the call that the rule denies: the one of several files or commands that matches. */
function refusedOf(policy: Policy, { by }: PolicyDecision, question: PolicyQuestion): string | undefined {
  const { effects, command } = question;
  if (!command && effects.length === 1) return effects[0]?.target;
  const isRefused = (part: Partial<PolicyQuestion>): boolean => {
    const alone = decide(policy, { ...question, ...part }).by;
    return alone.id === by.id && alone.source === by.source;
  };
  if (!command) return (effects.find((it) => isRefused({ effects: [it] })) ?? effects[0])?.target;
  if (effects[0]) return effects[0].target;
  const { commands, redirects, mentions } = command;
  const isRefusedAlone = (part: Partial<ParsedCommand>): boolean =>
    isRefused({ command: { commands: [], redirects: [], mentions: [], unknown: [], ...part } });
  // The line's paths belong to no command of it.
  return (
    commands.find((it) => isRefusedAlone({ commands: [it] }))?.text ??
    redirects.find((it) => isRefusedAlone({ redirects: [it] }))?.target ??
    mentions.find((it) => isRefusedAlone({ mentions: [it] })) ??
    commands[0]?.text
  );
}

const SHOWN_CHARS = 120;
const short = (text: string): string => (text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text);
