/** The changes that `ringfence init` proposes to config.yaml and to the policy file, each with its reason as a comment. */
import type { Document } from 'yaml';
import { addItem, addOnce, NEW_POLICY, parsed, withPolicy, written } from '../../daemon/config/policy-edits.ts';
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

type ProjectProposal = Pick<PolicyProposal, 'tools' | 'pinned' | 'workspace'>;

/** Limits for builds that are known to exceed the default of two minutes and 128 processes. */
const HEAVY = { timeoutMs: 600_000, processes: 512 };

/** The policy file with the proposal's limits added; existing text stays unchanged. */
export function withProject(text: string | undefined, { tools, base }: Pick<PolicyProposal, 'tools' | 'base'>): string {
  const document = parsed(text ?? NEW_POLICY(base));
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
  const document = parsed(withPolicy(text, policy));
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
