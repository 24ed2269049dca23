/**
 * Separates calls of tools with separable effects (`file_read_many`): what the policy denies is taken out of the
 * input before any other stage sees the call, so that no host opens it, and cache and approval know only what runs.
 * The result then holds an error for each denied target, made from the policy's words alone: nothing is looked up, so
 * that the answer does not depend on whether the target exists.
 */
import type { Denial } from '../base/call.ts';
import type { ToolError } from '../base/errors.ts';
import { heldBytes } from '../base/text/held-bytes.ts';
import { decide, type PolicyDecision } from '../policy/decide.ts';
import type { PolicyQuestion } from '../policy/question.ts';
import type { Policy } from '../policy/schema.ts';
import type { Tool } from '../tools/tool.ts';
import { DENIALS_MAX } from './execute/denials.ts';
import { type Outcome, succeeded } from './outcome.ts';
import { refusalOf } from './refusal.ts';
import { type Handler, type JudgedCall, outcomeOf } from './stage.ts';

/** A call as the policy judged it. */
export interface JudgedEffects {
  readonly input: unknown;
  readonly question: PolicyQuestion;
  readonly decided: PolicyDecision;
}

interface DeniedEffect {
  /** The path as the caller wrote it. */
  readonly path: string;
  readonly error: ToolError;
  readonly denial: Denial;
}

export interface SeparatedEffects {
  /** The rest of the call, which the policy allows or asks about. */
  readonly rest: JudgedEffects;
  /** The denied effects, one for each path. */
  readonly denied: readonly DeniedEffect[];
}

/** Undefined if the call must be judged whole: none or all of it is denied, or its tool has no separable effects. */
export function separate(
  policy: Policy,
  tool: Tool,
  { input, question, decided }: JudgedEffects,
): SeparatedEffects | undefined {
  if (decided.decision !== 'deny' || !tool.separable || question.command) return undefined;
  // Without a command line, the question's effects are the tool's, in the same order.
  const declared = tool.effects(input as never);
  const denied = new Map<string, DeniedEffect>();
  const effects = question.effects.filter((effect, at) => {
    const questionOfOne = { ...question, effects: [effect] };
    const decidedOne = decide(policy, questionOfOne);
    const path = declared[at]?.target;
    if (decidedOne.decision !== 'deny' || path === undefined) return true;
    const error = refusalOf(policy, decidedOne, questionOfOne);
    denied.set(path, { path, error, denial: denialOf(effect, decidedOne, error) });
    return false;
  });
  if (effects.length === 0) return undefined;
  const remainingInput = tool.separable.without(input as never, new Set(denied.keys()));
  if (remainingInput === undefined) return undefined;
  const rest = { ...question, effects };
  const decidedRest = decide(policy, rest);
  if (decidedRest.decision === 'deny') return undefined;
  return { rest: { input: remainingInput, question: rest, decided: decidedRest }, denied: [...denied.values()] };
}

/** Runs the rest of a call, and adds the denied effects to its result and its record. */
export async function withoutDenied(
  call: JudgedCall,
  denied: readonly DeniedEffect[],
  { next, redact }: { next: Handler<JudgedCall>; redact<T>(value: T): T },
): Promise<Outcome> {
  const { tool } = call.checked;
  const inner = await outcomeOf(next, call);
  const outcome = {
    ...inner,
    denied: [...denied.map((it) => it.denial), ...(inner.denied ?? [])].slice(0, DENIALS_MAX),
  };
  if (outcome.error || call.options.preview || !tool.separable) return outcome;
  // The sanitizer is an inner stage and has not seen these errors.
  const errors = redact(denied.map(({ path, error: { code, message } }) => ({ path, code, message })));
  const data = tool.separable.withDenied(outcome.data as never, errors);
  return succeeded(data, { ...outcome, heldBytes: outcome.heldBytes + heldBytes(errors) });
}

function denialOf(
  { kind, target }: PolicyQuestion['effects'][number],
  { by }: PolicyDecision,
  { extras }: ToolError,
): Denial {
  return {
    kind: kind === 'write' || kind === 'delete' ? 'write' : 'read',
    target: target.slice(0, TARGET_CHARS_MAX),
    rule: by.id,
    layer: 'policy',
    reason: by.reason.slice(0, WORDS_CHARS_MAX),
    suggestion: extras.suggestion?.slice(0, WORDS_CHARS_MAX),
  };
}

/** Bounds of the `Denial` schema, in characters. */
const TARGET_CHARS_MAX = 4096;
const WORDS_CHARS_MAX = 1024;
