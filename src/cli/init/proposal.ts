/** The changes that `ringfence init` proposes to config.yaml and to the policy file, each with its reason as a comment. */
import { isDeepStrictEqual } from 'node:util';
import { type Document, isMap, isNode, isSeq, type Node, parse, parseDocument, visit } from 'yaml';
import { CliError, EXIT } from '../output.ts';
import type { CommandPattern, ProjectTool } from './project.ts';
import type { Toolchain } from './toolchains.ts';

export interface PolicyProposal {
  readonly tools: readonly ProjectTool[];
  readonly toolchains: readonly Toolchain[];
}

/** Limits for builds that are known to exceed the default of two minutes and 128 processes. */
const HEAVY = { timeoutMs: 600_000, processes: 512 };

/** The policy file with the proposal's rules, hosts and limits added; existing text stays unchanged. */
export function withProject(text: string | undefined, { tools }: PolicyProposal): string {
  const document = parsed(
    text ?? '# The policy of your daemon; docs/policy.md says how to read it.\nversion: 1\nextends: default\n',
  );
  addRules(document, tools);
  addHosts(document, tools);
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

/** The text of config.yaml with the proposal's toolchains, and with `policy` if it names none. */
export function withSettings(text: string | undefined, { toolchains }: PolicyProposal, policy: string): string {
  const document = parsed(text ?? '# Settings of your daemon; docs/configuration.md lists them.\n');
  addOnce(document, ['policy'], policy, 'What agents may do.');
  for (const { path, manager } of toolchains)
    addItem(
      document,
      ['toolchains'],
      path,
      `From your PATH, by ${manager}: commands see it read-only and find its programs.`,
    );
  return written(document, text);
}

/** The original text if nothing was added, since rewriting may move its comments. */
function written(document: Document, before: string | undefined): string {
  const isSame = before !== undefined && isDeepStrictEqual(parse(before) ?? {}, document.toJS());
  return isSame ? before : document.toString({ lineWidth: 120 });
}

function addRules(document: Document, tools: readonly ProjectTool[]): void {
  for (const { name, evidence, commands } of tools) {
    if (commands.length === 0) continue;
    const id = `project-${name}`;
    const rules = document.get('rules');
    const isThere = isSeq(rules) && rules.items.some((it) => isMap(it) && it.get('id') === id);
    if (isThere) continue;
    const rule = {
      id,
      match: commands.length === 1 ? { command: commands[0] } : { any: commands.map((command) => ({ command })) },
      decision: 'allow',
      reason: `Builds and tests of ${evidence}; they run in a sandbox.`,
      examples: { match: [exampleOf(commands[0] as CommandPattern)], no_match: [`${name} publish`] },
    };
    const why = `${evidence}: its builds, tests and checks run without asking, in every workspace of this daemon. They run the project's own code.`;
    addItem(document, ['rules'], onFewLines(document.createNode(rule)), why);
  }
}

function addHosts(document: Document, tools: readonly ProjectTool[]): void {
  for (const { name, evidence, hosts } of tools)
    for (const [index, host] of hosts.entries())
      addItem(
        document,
        ['tiers', 'execute', 'network', 'allow'],
        host,
        index === 0 ? reasonOf({ name, evidence }) : '',
      );
}

const reasonOf = ({ name, evidence }: Pick<ProjectTool, 'name' | 'evidence'>): string =>
  `${evidence}: ${name} gets its packages there. A command could send there whatever it may read.`;

/** Puts commands and examples on one line each, as in hand-written policies. */
function onFewLines(rule: Node): Node {
  visit(rule, {
    Pair(_, { key, value }) {
      if (isSeq(value) && ['command', 'match', 'no_match'].includes(String(key))) value.flow = true;
    },
  });
  return rule;
}

const exampleOf = (command: CommandPattern): string =>
  command.map((it) => (typeof it === 'string' ? it : it[0])).join(' ');

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
function addItem(document: Document, path: readonly string[], item: unknown, why: string): void {
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
  if (list.items.some((it) => String((it as { value?: unknown }).value) === item)) return;
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
