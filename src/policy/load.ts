/** Policy files from disk to a Policy, or a complaint with its place. A file is refused whole when anything in it is wrong. */
import { lstatSync, readFileSync } from 'node:fs';
import { type Document, isNode, LineCounter, parseDocument, visit } from 'yaml';
import { type Decision, TIERS, type Tier } from '../call.ts';
import { type Policy, policyFile, type TierRule } from './schema.ts';

/** A policy that is not taken; the message names file, line and column of each problem. */
export class PolicyError extends Error {}

const FILE_BYTES_MAX = 1024 * 1024;

const DEFAULT: Record<Tier, [Decision, string]> = {
  read_only: ['allow', 'Reading inside the workspace changes nothing.'],
  write: ['allow', 'Files of the workspace are what the agent is there to change.'],
  execute: ['ask', 'A command can do anything that its sandbox lets it; a person should see it first.'],
  external_api: ['ask', 'What leaves the machine can not be taken back.'],
};

const ruleId = (tier: Tier) => `tiers.${tier}.decision`;

/** The policy that is in force when none is named. */
export const defaultPolicy: Policy = {
  name: 'default',
  tiers: byTier((tier) => {
    const [decision, reason] = DEFAULT[tier];
    return { decision, id: ruleId(tier), reason, source: 'built-in:default' };
  }),
};

/** The built-in policies by name. */
export const BUILT_IN: ReadonlyMap<string, Policy> = new Map([['default', defaultPolicy]]);

/** A built-in name or the path of a file. Throws PolicyError. */
export function loadPolicy(nameOrPath: string): Policy {
  const known = BUILT_IN.get(nameOrPath);
  if (known) return known;
  const stat = lstatSync(nameOrPath, { throwIfNoEntry: false });
  if (!stat?.isFile()) {
    throw new PolicyError(
      `policy ${nameOrPath}: no such file, and no built-in policy (${[...BUILT_IN.keys()].join(', ')}) has that name`,
    );
  }
  if (stat.size > FILE_BYTES_MAX)
    throw new PolicyError(`policy ${nameOrPath}: ${stat.size} bytes; at most ${FILE_BYTES_MAX} are read`);
  if ((stat.mode & 0o022) !== 0)
    throw new PolicyError(`policy ${nameOrPath}: others may write it; run: chmod go-w ${nameOrPath}`);
  return parsePolicy(readFileSync(nameOrPath, 'utf8'), nameOrPath);
}

/** The text of a policy file; tiers that it doesn't name are as in `default`. Throws PolicyError. */
export function parsePolicy(text: string, file: string): Policy {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, strict: true });
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return `${file}:${line}:${col}`;
  };
  if (document.errors.length > 0) {
    throw new PolicyError(document.errors.map((it) => `${at(it.pos[0])}: ${it.message.split('\n')[0]}`).join('\n'));
  }
  refuseOddities(document, text, at);
  const offsetOf = (path: readonly PropertyKey[]): number => {
    const node = document.getIn(path as string[], true);
    return isNode(node) ? (node.range?.[0] ?? 0) : 0;
  };
  const parsed = policyFile.safeParse(toPlain(() => document.toJS({ maxAliasCount: 100 }), file) ?? {});
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap((issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map(
            (key) =>
              `${at(offsetOf([...issue.path, key]))}: ${[...issue.path, key].join('.')} is not supported yet; this version takes version and tiers.<tier>.decision`,
          )
        : [`${at(offsetOf(issue.path))}: ${issue.path.join('.') || 'the file'}: ${issue.message}`],
    );
    throw new PolicyError(problems.join('\n'));
  }
  const { tiers } = parsed.data;
  return {
    name: file,
    tiers: byTier((tier) => {
      const decision = tiers?.[tier]?.decision;
      if (decision === undefined) return defaultPolicy.tiers[tier];
      const { line } = lines.linePos(offsetOf(['tiers', tier, 'decision']));
      return { decision, id: ruleId(tier), reason: `the policy says ${decision}`, source: `${file}:${line}` };
    }),
  };
}

/** Tags and directives change what a value is: a `!!omap` has no keys that a schema could see, and would pass as empty. */
function refuseOddities(document: Document, text: string, at: (offset: number) => string): void {
  const problems = document.warnings.map((it) => `${at(it.pos[0])}: ${it.message.split('\n')[0]}`);
  const directive = /^%/m.exec(text);
  if (directive) problems.push(`${at(directive.index)}: YAML directives are not taken`);
  visit(document, {
    Node(_, node) {
      if (isNode(node) && 'tag' in node && node.tag)
        problems.push(`${at(node.range?.[0] ?? 0)}: the tag ${node.tag} is not taken; write plain values`);
    },
  });
  if (problems.length > 0) throw new PolicyError(problems.join('\n'));
}

/** Aliases that multiply are refused by the library with a throw. */
function toPlain(convert: () => unknown, file: string): unknown {
  try {
    return convert();
  } catch (error) {
    throw new PolicyError(`${file}:1:1: ${(error as Error).message}`);
  }
}

function byTier(rule: (tier: Tier) => TierRule): Policy['tiers'] {
  return Object.fromEntries(TIERS.map((tier) => [tier, rule(tier)])) as unknown as Policy['tiers'];
}
