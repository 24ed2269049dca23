/** Says what is wrong with the shape of a file of the person: the position, the key, and what to write instead. */
import * as z from 'zod';
import { type PositionedYaml, quoteForMessage, type ValuePath } from '../positioned-yaml.ts';
import { policyFile } from './policy-file.ts';

/** Keys that are designed but not enforced yet, by the object that holds them; accepting them would promise enforcement. */
const NOT_YET: readonly { readonly holder: RegExp; readonly keys: readonly string[] }[] = [
  { holder: /^$/, keys: ['network'] },
  { holder: /^tiers\.[a-z_]+$/, keys: ['undo', 'processes', 'fileMb'] },
  { holder: /^tiers\.external_api$/, keys: ['cpuMs', 'memoryMb'] },
];

type Issue = z.core.$ZodIssue;

/** One complaint for each problem, `file:line:col: key: what`. */
export function complaintsOf(
  issues: readonly Issue[],
  source: PositionedYaml,
  schema: z.ZodType = policyFile,
): string[] {
  return issues.filter((it) => !isFollowing(it, issues)).flatMap((issue) => complain(issue, [], { source, schema }));
}

/** A file, and the schema that it has to fit. */
interface Checked {
  readonly source: PositionedYaml;
  readonly schema: z.ZodType;
}

/** Whether an issue only follows from a misspelt key: without that key the object looks empty, which is no second mistake. */
const isFollowing = (issue: Issue, all: readonly Issue[]): boolean =>
  issue.code === 'custom' &&
  all.some((it) => it.code === 'unrecognized_keys' && it.path.join('.') === issue.path.join('.'));

function complain(issue: Issue, above: ValuePath, checked: Checked): string[] {
  const { source } = checked;
  const path = [...above, ...issue.path];
  const label = nameOf(path);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map(
      (key) =>
        `${source.atKey([...path, key])}: ${nameOf([...path, key])} ${unknownKey(path, key, { ...checked, issue })}`,
    );
  }
  if (issue.code === 'invalid_union') return complainOfUnion(issue, path, checked);
  if (issue.code === 'invalid_type' && valueAt(source.value, path) === undefined)
    return [`${source.at(path)}: ${label} is missing`];
  return [`${source.at(path)}: ${label}: ${inWords(issue.message)}`];
}

const BOUNDS: Readonly<Record<string, string>> = {
  '>=': 'at least',
  '>': 'more than',
  '<=': 'at most',
  '<': 'less than',
};

/** The message of the schema; zod's own in plain words. */
function inWords(message: string): string {
  const [, bound, value] = /^Too (?:small|big): expected .* to (?:be|have) ([<>]=?)(.+)$/.exec(message) ?? [];
  if (bound !== undefined) return `must be ${BOUNDS[bound]} ${value}`;
  const [, expected, received] = /^Invalid input: expected (.+), received (.+)$/.exec(message) ?? [];
  if (received === 'undefined') return 'is missing';
  if (expected !== undefined) return `must be of the type ${expected}, not ${received}`;
  const [, keys] = /^Unrecognized keys?: (.+)$/.exec(message) ?? [];
  if (keys !== undefined) return `there is no key ${keys}`;
  const [, options] = /^Invalid option: expected one of (.+)$/.exec(message) ?? [];
  return options === undefined ? message : `must be one of ${options.replaceAll('|', ', ')}`;
}

/** For a union such as `x or a list of x`: reports the problems of the alternative whose outer type fits, since that one was meant. */
function complainOfUnion(issue: z.core.$ZodIssueInvalidUnion, path: ValuePath, checked: Checked): string[] {
  const meant = issue.errors.filter((it) => !it.some(({ code, path }) => code === 'invalid_type' && path.length === 0));
  if (meant.length === 1) return (meant[0] as Issue[]).flatMap((it) => complain(it, path, checked));
  return [`${checked.source.at(path)}: ${nameOf(path)}: takes a text or a list of texts`];
}

function unknownKey(holder: ValuePath, key: string, { schema, issue }: Checked & { issue: Issue }): string {
  const label = holder.join('.');
  if (schema === policyFile && NOT_YET.some((it) => it.holder.test(label) && it.keys.includes(key)))
    return 'is not supported yet';
  const known = keysAt(holder, schema);
  const near = nearest(key, known);
  if (near) return `is unknown; did you mean ${near}?`;
  // A schema may say more of a key, for example that it is fixed by now.
  const own = issue.message.startsWith('Unrecognized key') ? [] : issue.message.split('; ');
  if (own.length > 0) return `is unknown: ${own.find((it) => it.includes(key)) ?? issue.message}`;
  const more = known.length - KEYS_NAMED_MAX;
  return `is unknown; there are: ${known.slice(0, KEYS_NAMED_MAX).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Most keys that are named to choose from. */
const KEYS_NAMED_MAX = 16;

const nameOf = (path: ValuePath): string => (path.length === 0 ? 'the file' : quoteForMessage(path.join('.')));

function valueAt(value: unknown, path: ValuePath): unknown {
  let at = value;
  for (const step of path) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = (at as Record<PropertyKey, unknown>)[step];
  }
  return at;
}

interface JsonSchema {
  readonly $ref?: string;
  readonly $defs?: Record<string, JsonSchema>;
  readonly properties?: Record<string, JsonSchema>;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
}

/** The keys that are valid at `path` of a file. */
function keysAt(path: ValuePath, schema: z.ZodType): string[] {
  const shape = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema;
  let at: JsonSchema | undefined = shape;
  for (const step of path) {
    const more: JsonSchema['additionalProperties'] = at?.additionalProperties;
    const rest: JsonSchema | undefined = typeof more === 'object' ? more : undefined;
    at = resolveRef(typeof step === 'number' ? at?.items : (at?.properties?.[String(step)] ?? rest), shape);
  }
  return Object.keys(at?.properties ?? {});
}

function resolveRef(schema: JsonSchema | undefined, top: JsonSchema): JsonSchema | undefined {
  if (schema?.$ref === undefined) return schema;
  return top.$defs?.[schema.$ref.replace('#/$defs/', '')];
}

/** The known name closest to a misspelt one: equal except for case, a prefix of it or the reverse, or at most two letters changed. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const wanted = name.toLowerCase();
  const close = (it: string) => {
    const other = it.toLowerCase();
    return other === wanted || (wanted.length > 2 && (other.startsWith(wanted) || wanted.startsWith(other)));
  };
  return known.find(close) ?? known.find((it) => isNear(wanted, it.toLowerCase()));
}

/** Whether at most two letters of the longer name remain after the common prefix and suffix are removed. */
function isNear(a: string, b: string): boolean {
  const shortest = Math.min(a.length, b.length);
  let [from, to] = [0, 0];
  while (from < shortest && a[from] === b[from]) from += 1;
  while (to < shortest - from && a.at(-1 - to) === b.at(-1 - to)) to += 1;
  return Math.max(a.length, b.length) - from - to <= 2 && from + to >= 2;
}
