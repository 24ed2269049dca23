/** Loads policy files into a Policy, or reports problems with their positions. A file with any problem is refused as a whole. */
import { dirname, join, resolve } from 'node:path';
import { defaultLimits, type Limits } from '../base/limits.ts';
import { BUILT_IN_NAMES, builtInText, loadBuilt } from './built-in-policies.ts';
import { compose, NEUTRAL, ROOT } from './compose.ts';
import { assertNotReplaceable, FileRefusal, readBelow, readTrusted } from './file.ts';
import { compileMatch } from './match.ts';
import { type PlacedRule, rulesOf } from './placed-rules.ts';
import { PolicyError } from './policy-error.ts';
import { firstOf, type PositionedYaml, quoteForMessage, readYaml } from './positioned-yaml.ts';
import { type EffectsOf, type ExampleOutcome, exampleWork, tryExamples } from './rule-examples.ts';
import { type PolicyFile, policyFile } from './schema/policy-file.ts';
import { quoted } from './schema/repository.ts';
import { complaintsOf } from './schema/schema-message.ts';
import type { Policy } from './schema.ts';

export { PolicyError } from './policy-error.ts';

export interface LoadOptions {
  /** The parent of a file without `extends`; `default` when absent. */
  readonly parent?: Policy | undefined;
  /** Effects of calls to known tools, for examples written `tool {json}`. */
  readonly effectsOf?: EffectsOf | undefined;
  readonly limits?: Limits | undefined;
}

export interface LoadedPolicy {
  readonly policy: Policy;
  /** Absolute paths of the files that were read; none for a built-in policy. */
  readonly files: readonly string[];
}

/** A file that was examined completely, whether or not it is accepted. */
export interface ExaminedPolicy extends LoadedPolicy {
  /** One outcome for each example of the file's own rules, in order. */
  readonly outcomes: readonly (ExampleOutcome & { readonly at: string })[];
  /** Why the file is refused; empty when it is accepted. */
  readonly problems: readonly string[];
}

/** One load: its options, and the files opened so far. */
interface LoadContext extends LoadOptions {
  readonly limits: Limits;
  /** Paths from the first file to the one that is being read. */
  readonly chain: readonly string[];
  readonly files: Set<string>;
  /** Whether examples are tried; our tests try those of the built-in policies. */
  readonly tries: boolean;
  /** Policies that a file may extend by name. */
  readonly builtIns: ReadonlyMap<string, Policy>;
  /** Marks whose words a file's are. */
  readonly toOwn?: (file: PolicyFile) => PolicyFile;
  /** Keys that this file may not use, and why. */
  readonly refused?: Readonly<Record<string, string>>;
}

/** Built-in policies by name. */
export const BUILT_IN: ReadonlyMap<string, Policy> = loadBuilt() ?? readBuiltIns();

/** The policy in force when none is named, and the parent of files without `extends`. */
export const defaultPolicy: Policy = BUILT_IN.get('default') as Policy;

/** Loads a built-in policy by name, or a file by path. Throws PolicyError with every problem. */
export function loadPolicy(nameOrPath: string, options: LoadOptions = {}): Policy {
  return readPolicy(nameOrPath, options).policy;
}

/** Like `loadPolicy`, also returns the files that were read. Throws PolicyError with every problem. */
export function readPolicy(nameOrPath: string, options: LoadOptions = {}): LoadedPolicy {
  const { policy, files, problems } = examinePolicy(nameOrPath, options);
  if (problems.length > 0) throw new PolicyError(problems, files);
  return { policy, files };
}

/** Like `readPolicy`, but returns problems and the outcome of each example. Throws PolicyError only if nothing can be examined. */
export function examinePolicy(nameOrPath: string, options: LoadOptions = {}): ExaminedPolicy {
  if (BUILT_IN.has(nameOrPath)) {
    const loading = startLoading(options, nameOrPath === 'floor' ? ROOT : defaultPolicy);
    return examine(builtInText(nameOrPath), `built-in:${nameOrPath}`, loading);
  }
  const loading = startLoading(options);
  const path = resolve(nameOrPath);
  try {
    return examine(readFor(path, loading, `policy ${nameOrPath}`), nameOrPath, { ...loading, chain: [path] });
  } catch (error) {
    throw error instanceof PolicyError ? new PolicyError(error.problems, [...loading.files]) : error;
  }
}

/** Parses the text of a policy file; `file` is its name in problems and the base of what it extends. Throws PolicyError. */
export function parsePolicy(text: string, file: string, options: LoadOptions = {}): Policy {
  const { policy, problems } = examine(text, file, { ...startLoading(options), chain: [resolve(file)] });
  if (problems.length > 0) throw new PolicyError(problems);
  return policy;
}

/**
 * The policy that a repository has in `.ringfence/policy.yaml`, as a layer that can only narrow; undefined if there is none. Anybody who
 * can write the workspace can write this file. Throws PolicyError.
 */
export function projectPolicy(workspace: string, options: Omit<LoadOptions, 'parent'> = {}): Policy | undefined {
  const loading = startLoading(options, NEUTRAL);
  const narrows = 'a policy of a workspace can only narrow what is in force';
  const path = join(workspace, '.ringfence', 'policy.yaml');
  const text = refusedAs('policy', () =>
    readBelow(workspace, ['.ringfence', 'policy.yaml'], loading.limits.policyProjectBytesMax),
  );
  if (text === undefined) return undefined;
  const refused = { extends: narrows, open: narrows };
  const { policy, problems } = examine(text, path, { ...loading, chain: [path], refused, toOwn: quoted });
  if (problems.length > 0) throw new PolicyError(problems, [path]);
  return policy;
}

function startLoading({ limits, ...options }: LoadOptions, parent = options.parent, builtIns = BUILT_IN): LoadContext {
  return {
    ...options,
    parent,
    limits: limits ?? defaultLimits,
    chain: [],
    files: new Set(),
    tries: true,
    builtIns,
  };
}

function readBuiltIns(): ReadonlyMap<string, Policy> {
  const policies = new Map<string, Policy>();
  for (const name of BUILT_IN_NAMES) {
    const loading = { ...startLoading({}, policies.get('default') ?? ROOT, policies), tries: false };
    const { policy, problems } = examine(builtInText(name), `built-in:${name}`, loading);
    if (problems.length > 0) throw new PolicyError(problems);
    policies.set(name, policy);
  }
  return policies;
}

/** Examines the text of one file. Throws PolicyError if its shape or its parent is refused. */
function examine(text: string, file: string, loading: LoadContext): ExaminedPolicy {
  const positions = readYaml(text, file, loading.limits);
  const { toOwn = (it: PolicyFile) => it } = loading;
  const data = toOwn(toPolicyFile(positions, loading));
  const parent = parentOf(data, positions, loading);
  const rules = rulesOf(data, positions);
  const name = file.replace(/^built-in:/, '');
  const { policy, problems } = compose(parent, { name, data, positions: positions, rules });
  problems.push(...uncompilable(rules, positions));
  const tried =
    loading.tries && problems.length === 0 ? tryAll(rules, positions, loading) : { outcomes: [], problems: [] };
  const all = firstOf([...problems, ...tried.problems]);
  return { policy, outcomes: tried.outcomes, problems: all, files: [...loading.files] };
}

function toPolicyFile(positions: PositionedYaml, { refused = {} }: LoadContext): PolicyFile {
  const value = positions.value ?? undefined;
  // An empty file, as an interrupted editor or a full disk leaves behind, must not mean `default`.
  if (value === undefined)
    throw new PolicyError([
      `${positions.file}:1:1: the file is empty; to add nothing to the policy that it extends, write \`version: 1\``,
    ]);
  const problems = Object.entries(refused)
    .filter(([key]) => Object.hasOwn(value, key))
    .map(([key, why]) => `${positions.atKey([key])}: ${key}: ${why}`);
  // A compiled parser would take longer to build than it saves for a single use.
  const parsed = policyFile.safeParse(value, { jitless: true });
  if (!parsed.success) problems.push(...complaintsOf(parsed.error.issues, positions));
  if (!parsed.success || problems.length > 0) throw new PolicyError(firstOf(problems));
  return parsed.data;
}

function parentOf({ extends: named }: PolicyFile, positions: PositionedYaml, loading: LoadContext): Policy {
  if (named === undefined) return loading.parent ?? defaultPolicy;
  const known = loading.builtIns.get(named);
  if (known) return known;
  const { chain, limits } = loading;
  const here = `${positions.at(['extends'])}: extends`;
  const path = resolve(dirname(chain.at(-1) ?? '.'), named);
  const way = [...chain.slice(chain.indexOf(path)), path].map((it) => quoteForMessage(it)).join(' → ');
  if (chain.includes(path)) throw new PolicyError([`${here}: these files extend each other in a circle: ${way}`]);
  if (chain.length >= limits.policyExtendsMax)
    throw new PolicyError([`${here}: a chain of \`extends\` may have at most ${limits.policyExtendsMax} files`]);
  const text = readFor(path, loading, here);
  const { policy, problems } = examine(text, path, { ...loading, chain: [...chain, path] });
  if (problems.length > 0) throw new PolicyError(problems);
  return policy;
}

/** Compiles all patterns when the file is loaded, so that no call meets a broken one. */
function uncompilable(rules: readonly PlacedRule[], positions: PositionedYaml): string[] {
  return rules.flatMap(({ rule, path }) => {
    try {
      compileMatch(rule.match);
      return [];
    } catch (error) {
      return [`${positions.at([...path, 'match'])}: ${rule.id}: ${(error as Error).message}`];
    }
  });
}

function tryAll(rules: readonly PlacedRule[], positions: PositionedYaml, { limits, effectsOf }: LoadContext) {
  const work = rules.reduce((sum, { rule }) => sum + exampleWork(rule), 0);
  if (work > limits.policyExampleWorkMax) {
    const location = positions.at(['rules']);
    const why = `rules times their examples are ${work} characters; at most ${limits.policyExampleWorkMax} are tried`;
    return { outcomes: [], problems: [`${location}: ${why}`] };
  }
  const outcomes = rules.flatMap(({ rule, path }) =>
    tryExamples(rule, effectsOf).map((it) => ({ ...it, at: positions.at([...path, 'examples', it.kind, it.index]) })),
  );
  const failed = outcomes.filter((it) => it.problem !== undefined);
  return {
    outcomes,
    problems: failed.map((it) => `${it.at}: ${it.rule}: example \`${quoteForMessage(it.text)}\`: ${it.problem}`),
  };
}

/** Reads the file at `path` and records it in `files`; refusals begin with `label`. */
function readFor(path: string, { files, limits }: LoadContext, label: string): string {
  files.add(path);
  return refusedAs(label, () => {
    const text = readTrusted(path, limits.policyFileBytesMax);
    assertNotReplaceable(path);
    return text;
  });
}

/** Turns a FileRefusal of `read` into a PolicyError. */
function refusedAs<T>(label: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    if (error.cause !== 'ENOENT') throw new PolicyError([`${label}: ${error.message}`]);
    const none = `no built-in policy (${BUILT_IN_NAMES.join(', ')}) has that name`;
    // A single word was meant as a built-in name, not as a file in the daemon's working directory, which is `/`.
    const [, word] = /^policy ([a-z-]+)$/.exec(label) ?? [];
    const why = word === undefined ? `${error.message}, and ${none}` : `${none}; to name a file, write ./${word}`;
    throw new PolicyError([`${label}: ${why}`]);
  }
}
