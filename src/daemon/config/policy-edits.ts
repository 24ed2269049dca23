/** Changes of the person's own policy and configuration as texts; what stands there stays as it is. */
import { isDeepStrictEqual } from 'node:util';
import { type Document, isMap, isNode, isSeq, type Node, parse, parseDocument } from 'yaml';
import { ConfigError } from './config-error.ts';

/** How calls of a tool are decided: unasked, after a question, never, or as the rest of the policy says. */
export const LEVELS = ['auto', 'ask', 'deny', 'default'] as const;
export type Level = (typeof LEVELS)[number];

/** The text of a policy file that says nothing beside the built-in policy that it extends. */
export const NEW_POLICY = (base: string): string =>
  `# The policy of your daemon; docs/policy.md says how to read it.\nversion: 1\nextends: ${base}\n`;

/** The text of config.yaml with a policy, if it names none. */
export function withPolicy(text: string | undefined, policy: string): string {
  const document = parsed(text ?? '# Settings of your daemon; docs/configuration.md lists them.\n');
  addOnce(document, ['policy'], policy, 'What agents may do.');
  return written(document, text);
}

/** The policy file with one more rule, in YAML; existing text stays unchanged. */
export function withRule(text: string, rule: string): string {
  const document = parsed(text);
  addItem(document, ['rules'], (parse(rule) as unknown[])[0], 'By `ringfence policy explain --write`.');
  return written(document, text);
}

/** The policy file with the one rule that sets how calls of a tool are decided; without it for `default`. */
export function withLevel(text: string, tool: string, level: Level): string {
  const document = parsed(text);
  const id = `level-of-${tool.replaceAll('_', '-')}`;
  const rules = document.get('rules');
  if (isSeq(rules)) rules.items = rules.items.filter((it) => !(isMap(it) && it.get('id') === id));
  if (isSeq(rules) && rules.items.length === 0) document.delete('rules');
  const decision = level === 'auto' ? 'allow' : level;
  const rule = { id, match: { tool }, decision, reason: `Set by \`ringfence policy set ${tool} ${level}\`.` };
  if (decision !== 'default') addItem(document, ['rules'], rule, '');
  return written(document, text);
}

/** The original text if nothing was added, since rewriting may move its comments. */
export function written(document: Document, before: string | undefined): string {
  const isSame = before !== undefined && isDeepStrictEqual(parse(before) ?? {}, document.toJS());
  return isSame ? before : document.toString({ lineWidth: 120 });
}

/** Sets a value if there is none. */
export function addOnce(document: Document, path: readonly string[], value: unknown, why: string): void {
  if (document.hasIn(path)) return;
  const pair = document.createPair(path.at(-1), value);
  (pair.key as Node).commentBefore = ` ${why}`;
  document.setIn(path, value);
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return;
  const at = parent.items.findIndex((it) => String((it.key as { value?: unknown }).value ?? it.key) === path.at(-1));
  parent.items[at] = pair;
}

/** Adds an item, with its reason above it, to a list unless it is already there. Throws ConfigError if the value there is no list. */
export function addItem(document: Document, path: readonly (string | number)[], item: unknown, why: string): void {
  const parent = document.getIn(path.slice(0, -1));
  if (path.length > 1 && parent !== undefined && !isMap(parent))
    throw new ConfigError(
      `${path.slice(0, -1).join('.')} is \`${JSON.stringify(parent)}\` in your file, which init can't extend; edit it by hand`,
    );
  if (!document.hasIn(path)) document.setIn(path, document.createNode([]));
  const list = document.getIn(path, true);
  if (!isSeq(list)) throw new ConfigError(`${path.join('.')} is not a list in your file; edit it by hand`);
  list.flow = false;
  if ((list.toJSON() as unknown[]).some((it) => isDeepStrictEqual(it, item))) return;
  const node = isNode(item) ? item : (document.createNode(item) as Node);
  if (why !== '') node.commentBefore = ` ${why}`;
  list.add(node);
}

/** Parses YAML. Throws ConfigError if the text is invalid. */
export function parsed(text: string): Document {
  const document: Document = parseDocument(text);
  const [error] = document.errors;
  if (error) throw new ConfigError(`the file is not YAML: ${error.message}`);
  document.contents ??= document.createNode({});
  return document;
}
