/**
 * What `access_request` asks for: a file that the policy hides, a folder outside of the workspace, a service of this machine. A person is
 * asked; the answer opens it for the calls of the session, or of the project, that begin after it. What someone wrote as a denial stays one.
 */

import { readFileSync, realpathSync, statSync } from 'node:fs';
import { join, posix, relative, resolve } from 'node:path';
import { ToolError } from '../../base/errors.ts';
import { toRelative } from '../../base/written-paths.ts';
import { pathDecision } from '../../policy/paths.ts';
import type { Policy, Rule } from '../../policy/schema.ts';
import type { DoorTarget, GrantFacts, Impact, Openings } from '../../store/approvals/approval.ts';
import type { Approvals } from '../../store/approvals/approvals.ts';
import { runsBy } from '../../tools/runs.ts';
import { type Outcome, type RunHooks, succeeded } from '../outcome.ts';
import type { CheckedCall, ClearedCall, DoorHolder, JudgedCall } from '../stage.ts';
import { factsAtDoor } from './door-facts.ts';
import { mayOpen, opened } from './opened-policy.ts';
import type { LocalServices } from './services.ts';

interface PathRules {
  readonly rules: readonly Rule[];
  readonly home: string;
}

export interface OpeningParts {
  readonly services: Pick<LocalServices, 'questionAbout'>;
  /** Why commands must never see a folder of the machine; undefined if they may. `path` is absolute and real. */
  outsideProblem(path: string): string | undefined;
  /** The path rules in force for a call, and the home that they mean. */
  viewOf(call: CheckedCall): PathRules;
}

/** What a person is asked at the door of a path. */
export interface OpeningQuestion {
  readonly facts: Pick<GrantFacts, 'door' | 'project' | 'projectIs'>;
  readonly reason: string;
  readonly impact: Impact;
  /** What a remembered yes covers, in words. */
  readonly covers: string;
}

/** The policy of a session with what a person opened for it. */
export type WithOpenings = (holder: DoorHolder, policy: Policy) => Policy;

const WIDELY = 'What it holds can then go wherever a door of this session is open';

/** Widened policies that are kept of one policy: to make one again means to compile its rules again. */
const KEPT_MAX = 64;

export function withOpenings(approvals: Approvals): WithOpenings {
  const known = new WeakMap<Policy, Map<string, Policy>>();
  return (holder, policy) => {
    const of = { tool: '', rule: '', policyVersion: policy.version };
    const given = approvals.opened((door) => factsAtDoor(holder, door, of));
    const openings: Openings = { ...given, folders: given.folders.filter((it) => listenerIn(it) === undefined) };
    if (openings.secrets.length + openings.folders.length + openings.services.length === 0) return policy;
    const key = JSON.stringify(openings);
    const kept = known.get(policy) ?? new Map<string, Policy>();
    known.set(policy, kept);
    const widened = kept.get(key) ?? opened(policy, openings);
    if (kept.size >= KEPT_MAX) kept.clear();
    kept.set(key, widened);
    return widened;
  };
}

/** What a person is asked about a call; undefined if it is about no door. Throws INPUT_INVALID, POLICY_DENIED, ACCESS_DENIED. */
export async function openingOf(call: JudgedCall, parts: OpeningParts): Promise<OpeningQuestion | undefined> {
  const { tool, input } = call.checked;
  const asked = runsBy(tool, 'doors')?.request(input as never);
  if (asked === undefined) return undefined;
  if ('path' in asked) return pathQuestion(call, asked, parts);
  const { target, reason, impact } = await parts.services.questionAbout(asked.service, call.policy);
  return { facts: factsOf(call, { kind: 'service', target }), reason, impact, covers: `connections to ${target}` };
}

function factsOf(call: JudgedCall, door: DoorTarget): OpeningQuestion['facts'] {
  const of = { tool: call.checked.tool.name, rule: '', policyVersion: '' };
  const { project, projectIs } = factsAtDoor(call.atDoors, door, of);
  return { door, project, projectIs };
}

function pathQuestion(call: JudgedCall, asked: { readonly path: string }, parts: OpeningParts): OpeningQuestion {
  const view = parts.viewOf(call);
  const path = posix.normalize(toRelative({ workspace: call.workspace, home: view.home })(asked.path));
  const isInside = !path.startsWith('/') && path !== '..' && !path.startsWith('../');
  const door = isInside ? secretAt(join(relative(call.root, call.workspace), path), view) : folderAt(path, call, parts);
  const facts = factsOf(call, door);
  const { target } = door;
  if (door.kind === 'secret')
    return {
      facts,
      reason: 'The policy hides this file, and the agent asks to see it.',
      impact: { level: 'medium', description: `Commands and file tools read ${target}.`, warnings: [WIDELY] },
      covers: `reading ${target}`,
    };
  const warnings = ['All that it holds is shown, secrets included', WIDELY];
  return {
    facts,
    reason: 'The folder lies outside of the workspace, and the agent asks to read it.',
    impact: { level: 'medium', description: `Commands read all of ${target}, and can't change it.`, warnings },
    covers: `commands that read ${target}`,
  };
}

/** The door of a file that the policy hides. Throws INPUT_INVALID if nothing hides it, POLICY_DENIED if no answer opens it. */
function secretAt(path: string, { rules, home }: PathRules): DoorTarget {
  const written = pathDecision(
    rules.filter((it) => !mayOpen(it)),
    'read',
    path,
    home,
  );
  if (written)
    throw new ToolError(
      'POLICY_DENIED',
      `rule \`${written.id}\` (${written.source}) hides ${path}, and no answer opens it`,
      {
        rule: written.id,
        suggestion: 'Ask the person to change that rule.',
      },
    );
  if (!pathDecision(rules, 'read', path, home))
    throw new ToolError('INPUT_INVALID', `nothing hides ${path} from this session`, {
      suggestion: 'Send the command again.',
    });
  return { kind: 'secret', target: path };
}

/** The door of a folder outside. Throws INPUT_INVALID, ACCESS_DENIED. */
function folderAt(path: string, { workspace, policy }: JudgedCall, { outsideProblem }: OpeningParts): DoorTarget {
  const absolute = resolve(workspace, path);
  const real = realFolder(absolute);
  if (real === undefined)
    throw new ToolError('INPUT_INVALID', `${absolute} is no folder of this machine that can be shown`, {
      suggestion: 'Name a folder, not a file.',
    });
  const listener = listenerIn(real);
  const problem = outsideProblem(real) ?? (listener && `holds ${listener}, where a program of this machine listens`);
  if (problem !== undefined)
    throw new ToolError('ACCESS_DENIED', `${real} ${problem}, and no answer opens it`, {
      suggestion: 'Programs are asked for with `toolchain_request`; keys and sockets of the person stay outside.',
    });
  if (policy.folders?.includes(real))
    throw new ToolError('INPUT_INVALID', `commands see ${real} already`, { suggestion: 'Send the command again.' });
  return { kind: 'path', target: real };
}

/** A Unix socket below a folder where something listens: a command could connect to it, whatever the mount allows. */
function listenerIn(folder: string): string | undefined {
  const lines = readFileSync('/proc/net/unix', 'utf8').split('\n');
  return lines.map((it) => it.slice(it.indexOf('/'))).find((it) => it.startsWith(`${folder}/`));
}

function realFolder(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return statSync(real).isDirectory() ? real : undefined;
  } catch {
    return undefined; // ENOENT, EACCES, ELOOP.
  }
}

/** Runs a call that a person said yes to: the answer itself is what opens the path. */
export async function runOpening(call: ClearedCall, { attempt, beforeStart }: RunHooks): Promise<Outcome> {
  await beforeStart();
  attempt.started = true;
  return succeeded({ ...(call.checked.input as object), opened: true }, attempt);
}
