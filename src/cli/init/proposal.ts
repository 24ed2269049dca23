/** The changes that `ringfence init` proposes to config.yaml and to the policy file, each with its reason as a comment. */
import { isDeepStrictEqual } from 'node:util';
import { type Document, isMap, isNode, isSeq, type Node, parse, parseDocument } from 'yaml';
import { CliError, EXIT } from '../output.ts';
import type { ProjectTool } from './project.ts';
import type { Toolchain } from './toolchains.ts';

export interface PolicyProposal {
  readonly tools: readonly ProjectTool[];
  readonly toolchains: readonly Toolchain[];
  /** Toolchains of this project alone: those that its files name. */
  readonly pinned: readonly Toolchain[];
  readonly workspace: string;
  /** The built-in policy that a new policy file extends. */
  readonly base: 'default' | 'careful';
}

/** How calls of a tool are decided: unasked, after a question, never, or as the rest of the policy says. */
export const LEVELS = ['auto', 'ask', 'deny', 'default'] as const;
export type Level = (typeof LEVELS)[number];

type ProjectProposal = Pick<PolicyProposal, 'tools' | 'pinned' | 'workspace'>;

/** Limits for builds that are known to exceed the default of two minutes and 128 processes. */
const HEAVY = { timeoutMs: 600_000, processes: 512 };

/** The policy file with the proposal's limits added; existing text stays unchanged. */
export function withProject(text: string | undefined, { tools, base }: Pick<PolicyProposal, 'tools' | 'base'>): string {
  const document = parsed(
    text ?? `# The policy of your daemon; docs/policy.md says how to read it.\nversion: 1\nextends: ${base}\n`,
  );
  const heavy = tools.filter((it) => it.isHeavy);
  if (heavy.length > 0)
    for (const [key, value] of Object.entries(HEAVY))
      addOnce(
        document,
        ['tiers', 'execute', key],
        value,
        `${namesOf(heavy)}: builds take longer, and more processes, than the default allows.`,
      );
  return written(document, text);
}

/** The text of config.yaml with the proposal's toolchains and hosts, and with `policy` if it names none. */
export function withSettings(
  text: string | undefined,
  { toolchains, ...project }: ProjectProposal & Pick<PolicyProposal, 'toolchains'>,
  policy: string,
): string {
  const document = parsed(text ?? '# Settings of your daemon; docs/configuration.md lists them.\n');
  addOnce(document, ['policy'], policy, 'What agents may do.');
  for (const { path, manager } of toolchains)
    addItem(
      document,
      ['toolchains'],
      path,
      `From your PATH, by ${manager}: commands see it read-only and find its programs.`,
    );
  addProject(document, project);
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
function written(document: Document, before: string | undefined): string {
  const isSame = before !== undefined && isDeepStrictEqual(parse(before) ?? {}, document.toJS());
  return isSame ? before : document.toString({ lineWidth: 120 });
}

/** Adds what one project has to the list of projects. */
function addProject(document: Document, { tools, pinned, workspace }: ProjectProposal): void {
  const hosts = tools.flatMap(({ name, evidence, hosts: named }) =>
    named.map((item, at) => ({
      item,
      why:
        at > 0 ? '' : `${evidence}: ${name} gets its packages there. A command could send there whatever it may read.`,
    })),
  );
  const toolchains = pinned.map(({ path, manager }) => ({
    item: path,
    why: `A file of the project names it; ${manager} holds it.`,
  }));
  if (hosts.length + toolchains.length === 0) return;
  const { projects } = document.toJS() as { projects?: unknown };
  const listed: ({ workspace?: unknown } | null)[] = Array.isArray(projects) ? projects : [];
  const known = listed.findIndex((it) => it?.workspace === workspace);
  if (known < 0) addItem(document, ['projects'], { workspace }, 'What commands have there alone.');
  const at = ['projects', known < 0 ? listed.length : known];
  for (const { item, why } of hosts) addItem(document, [...at, 'hosts'], item, why);
  for (const { item, why } of toolchains) addItem(document, [...at, 'toolchains'], item, why);
}

const namesOf = (tools: readonly ProjectTool[]): string => tools.map((it) => it.name).join(', ');

/** Sets a value if there is none. */
function addOnce(document: Document, path: readonly string[], value: unknown, why: string): void {
  if (document.hasIn(path)) return;
  const pair = document.createPair(path.at(-1), value);
  (pair.key as Node).commentBefore = ` ${why}`;
  document.setIn(path, value);
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return;
  const at = parent.items.findIndex((it) => String((it.key as { value?: unknown }).value ?? it.key) === path.at(-1));
  parent.items[at] = pair;
}

/** Adds an item, with its reason above it, to a list unless it is already there. Throws CliError if the value there is no list. */
function addItem(document: Document, path: readonly (string | number)[], item: unknown, why: string): void {
  const parent = document.getIn(path.slice(0, -1));
  if (path.length > 1 && parent !== undefined && !isMap(parent))
    throw new CliError(
      EXIT.FAILED,
      `${path.slice(0, -1).join('.')} is \`${JSON.stringify(parent)}\` in your file, which init can't extend; edit it by hand`,
    );
  if (!document.hasIn(path)) document.setIn(path, document.createNode([]));
  const list = document.getIn(path, true);
  if (!isSeq(list)) throw new CliError(EXIT.FAILED, `${path.join('.')} is not a list in your file; edit it by hand`);
  list.flow = false;
  if ((list.toJSON() as unknown[]).some((it) => isDeepStrictEqual(it, item))) return;
  const node = isNode(item) ? item : (document.createNode(item) as Node);
  if (why !== '') node.commentBefore = ` ${why}`;
  list.add(node);
}

/** Parses YAML. Throws CliError if the text is invalid. */
function parsed(text: string): Document {
  const document: Document = parseDocument(text);
  const [error] = document.errors;
  if (error) throw new CliError(EXIT.FAILED, `the file is not YAML: ${error.message}`);
  document.contents ??= document.createNode({});
  return document;
}
