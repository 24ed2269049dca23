/** Reads YAML files of plugins and connectors by a zod schema, and says what is wrong with one, with its position. */
import type * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import { PolicyError } from '../../policy/policy-error.ts';
import { firstOf, type PositionedYaml, quoteForMessage, readYaml } from '../../policy/positioned-yaml.ts';
import { PinError } from './pin-error.ts';

interface YamlIssue {
  readonly code?: string;
  readonly path: PropertyKey[];
  readonly message: string;
  readonly keys?: string[];
  /** For a union: the issues of each alternative. */
  readonly errors?: YamlIssue[][];
  /** For a key: its issues. */
  readonly issues?: YamlIssue[];
}

/** The value of a text that fits the schema. Throws PinError with a line for each problem. */
export function readBySchema<T>(
  text: string,
  schema: z.ZodType<T>,
  { label, limits }: { label: string; limits: Limits },
): { value: T; where: PositionedYaml } {
  const where = positioned(text, label, limits);
  const parsed = schema.safeParse(where.value ?? {});
  if (parsed.success) return { value: parsed.data, where };
  throw new PinError(firstOf((parsed.error.issues as YamlIssue[]).flatMap((it) => complain(it, where))));
}

function positioned(text: string, label: string, limits: Limits): PositionedYaml {
  try {
    return readYaml(text, label, limits);
  } catch (error) {
    if (error instanceof PolicyError) throw new PinError(error.problems);
    throw error;
  }
}

/** Problems as `file:line:col: key: what`; for a union those of the alternative that was most likely meant. */
function complain(issue: YamlIssue, where: PositionedYaml, above: readonly PropertyKey[] = []): string[] {
  const path = [...above, ...issue.path];
  if (issue.code === 'unrecognized_keys')
    return (issue.keys ?? []).map(
      (key) => `${where.atKey([...path, key])}: ${quoteForMessage([...path, key].join('.'))} is unknown`,
    );
  const [meant] = (issue.errors ?? []).filter((it) => it.some(({ path: inner }) => inner.length > 0));
  if (issue.code === 'invalid_union' && meant) return meant.flatMap((it) => complain(it, where, path));
  const message = issue.code === 'invalid_key' ? (issue.issues?.[0]?.message ?? issue.message) : issue.message;
  return [`${where.at(path)}: ${quoteForMessage(path.join('.')) || 'the file'}: ${message}`];
}
