/** Bounds the effects of tools that others wrote: callers list targets in any number, and the policy judges all of them in one turn. */
import type { Effect } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';

/** Gives the effects if they are few enough to judge. Throws INPUT_INVALID. */
export function boundedEffects(
  effects: Effect[],
  { declaredTargetsMax, declaredTargetChars }: Pick<Limits, 'declaredTargetsMax' | 'declaredTargetChars'>,
): Effect[] {
  if (effects.length > declaredTargetsMax) throw tooMany(`${effects.length} paths and hosts`, `${declaredTargetsMax}`);
  const chars = effects.reduce((sum, { target }) => sum + target.length, 0);
  if (chars > declaredTargetChars) throw tooMany(`paths and hosts of ${chars} characters`, `${declaredTargetChars}`);
  return effects;
}

const tooMany = (used: string, max: string): ToolError =>
  new ToolError('INPUT_INVALID', `the input names ${used}; at most ${max} are allowed in one call`, {
    suggestion: 'Make several calls.',
  });
