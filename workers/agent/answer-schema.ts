/** Checks the last answer of a model against the JSON Schema that its caller asked for. */
import type { Limits } from '../../src/base/limits.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { withinTime } from '../bounded.ts';

const PROBLEM_CHARS = 500;

/** The value of the answer, or what is wrong with it. The schema is its caller's, so that compiling it may fail, and its patterns may take for ever. */
export async function checkAnswer(
  text: string,
  schema: Readonly<Record<string, unknown>>,
  { taskSchemaMs }: Pick<Limits, 'taskSchemaMs'>,
): Promise<{ value?: unknown; problem?: string }> {
  let value: unknown;
  try {
    value = parseJson(withoutFence(text));
  } catch (error) {
    return { problem: `it is no JSON: ${(error as Error).message}`.slice(0, PROBLEM_CHARS) };
  }
  const { Ajv2020 } = await import('ajv/dist/2020.js');
  const ajv = new Ajv2020({ allErrors: true, strict: false, validateFormats: false, logger: false });
  try {
    const validate = withinTime(() => ajv.compile(schema), taskSchemaMs);
    if (withinTime(() => validate(value), taskSchemaMs)) return { value };
    return { problem: ajv.errorsText(validate.errors, { dataVar: 'answer' }).slice(0, PROBLEM_CHARS) };
  } catch (error) {
    return { problem: `the schema can't be used: ${(error as Error).message}`.slice(0, PROBLEM_CHARS) };
  }
}

/** Models put JSON into a block of code even if they are asked not to. */
function withoutFence(text: string): string {
  const [, inner] = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/.exec(text) ?? [];
  return inner ?? text;
}
