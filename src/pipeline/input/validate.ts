import type * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { toRelative } from '../../base/written-paths.ts';
import { withPaths } from '../../tools/path-parameters.ts';
import { type NamedTool, tierOfCall } from '../../tools/tool.ts';
import { type Call, type CheckedCall, outcomeOf, type Stage } from '../stage.ts';
import { narrowInput } from './narrow-input.ts';
import { nearest } from './nearest.ts';

export interface ValidateParts {
  readonly home: string;
  /** What brings a tool that is not there, as the name of its service and the commands; undefined for a name that nothing has. */
  setUpOf(tool: string): { readonly service: string; readonly commands: string } | undefined;
}

/** Looks up the tool in the session's toolset and checks the input by its schema; reports all problems at once. */
export const validate =
  ({ home, setUpOf }: ValidateParts): Stage<Call, CheckedCall> =>
  (next) =>
  async (call) => {
    const named = call.toolset.get(call.name);
    if (!named) throw unknownTool(call, setUpOf);
    const warnings = named.warnings?.(call.rawInput) ?? [];
    const tell = (warning: string) => void warnings.push(warning);
    const { tool } = named;
    const parsed = parseInput(named, call.rawInput, { workspace: call.workspace, home, tell });
    const { input, by } = narrowInput(tool, parsed, call.policy);
    if (by.length > 0) tell(`some arguments were changed before the call was judged, by ${by.join(', ')}`);
    const lacking = tool.judgedAs?.(input as never).find((it) => !call.toolset.has(it));
    if (lacking !== undefined) throw lacksTool(tool.name, lacking);
    const rawInput = by.length > 0 ? input : call.rawInput;
    const checked = { ...call, rawInput, checked: { tool, input, tier: tierOfCall(tool, input), effects: [] } };
    call.reached(checked);
    if (warnings.length === 0) return next(checked);
    const outcome = await outcomeOf(next, checked);
    return { ...outcome, warnings: [...warnings, ...outcome.warnings] };
  };

function unknownTool({ name, toolset }: Call, setUpOf: ValidateParts['setUpOf']): ToolError {
  const brought = setUpOf(name);
  if (brought)
    return new ToolError('TOOL_DISABLED', `\`${name}\` is a tool of ${brought.service}, which is not connected here`, {
      suggestion: `Ask the person to run: ${brought.commands}`,
    });
  const close = nearest(name, toolset.keys());
  const suggestion = close === undefined ? 'List the tools with tools.list.' : `Did you mean \`${close}\`?`;
  return new ToolError('TOOL_NOT_FOUND', `there is no tool \`${name}\` in this session`, {
    suggestion: ['task', 'task_delegate'].includes(name) ? NEEDS_MODEL : suggestion,
  });
}

const NEEDS_MODEL = 'It needs a model; ask the person to add one to config.yaml, under the key `agents`.';

const lacksTool = (name: string, lacking: string): ToolError =>
  new ToolError('TOOL_NOT_FOUND', `this call of \`${name}\` needs \`${lacking}\`, which this session does not have`);

type InputPlace = Parameters<typeof toRelative>[0] & { readonly tell?: (warning: string) => void };

/** Checks the input; absolute paths in it become relative to the workspace. Throws INPUT_INVALID. */
export function parseInput(named: NamedTool, input: unknown, place: InputPlace): unknown {
  try {
    return withPaths(toRelative(place), () => named.parse(input ?? {}, place.tell));
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'ZodError') throw error;
    throw invalid(named, (error as z.ZodError).issues);
  }
}

/** The most problems reported of one input; finding the nearest parameter for 50 000 wrong ones would hold up everybody. */
const PROBLEMS_TOLD_MAX = 16;

function invalid(named: NamedTool, problems: readonly z.core.$ZodIssue[]): ToolError {
  const { tool, parameters } = named;
  const issues = problems.slice(0, PROBLEMS_TOLD_MAX).flatMap((issue) => {
    const path = issue.path.join('.');
    // The inner issue says what is wrong with the key.
    if (issue.code === 'invalid_key') return [{ path, message: issue.issues[0]?.message ?? issue.message }];
    if (issue.code !== 'unrecognized_keys') return [{ path, message: issue.message }];
    return issue.keys.slice(0, PROBLEMS_TOLD_MAX).map((key) => {
      const close = nearest(key, parameters);
      const hint = close === undefined ? `the parameters are: ${parameters.join(', ')}` : `did you mean ${close}?`;
      return { path: path === '' ? key : `${path}.${key}`, message: `no such parameter; ${hint}` };
    });
  });
  const problemText = issues.map(({ path, message }) => `${path || 'input'}: ${message}`).join('; ');
  return new ToolError('INPUT_INVALID', `the input of \`${tool.name}\` is not valid: ${problemText}`, {
    suggestion: shapesOf(named, problems) || undefined,
    details: { issues },
  });
}

/** Shows the form of the parameters that have problems inside; a caller that guessed one inner name wrong would guess the next, too. */
function shapesOf({ shapeOf }: NamedTool, problems: readonly z.core.$ZodIssue[]): string {
  const names = new Set(problems.flatMap(({ path: [name] }) => (typeof name === 'string' ? [name] : [])));
  const shapes = [...names].slice(0, PROBLEMS_TOLD_MAX).flatMap((name) => {
    const shape = shapeOf?.(name);
    return shape === undefined ? [] : [`${name} is ${shape}`];
  });
  return shapes.join('; ').slice(0, SHAPES_CHARS_MAX);
}
const SHAPES_CHARS_MAX = 2_000;
