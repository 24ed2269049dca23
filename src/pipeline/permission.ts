import { join } from 'node:path';
import { ToolError } from '../errors.ts';
import type { CommandPlace } from '../policy/command.ts';
import { parseCommand } from '../policy/command.ts';
import { type Decided, decide, layersOf } from '../policy/decide.ts';
import { isOrdinary } from '../policy/ordinary.ts';
import type { ParsedCommand, Question } from '../policy/question.ts';
import type { Policy } from '../policy/schema.ts';
import { toTarget } from '../policy/target.ts';
import { type CommandLine, type Tool, tierOfCall } from '../tools/tool.ts';
import { refusalOf } from './refusal.ts';
import { type Judged, separate, withoutDenied } from './separate.ts';
import { type Call, checkedOf, type Stage } from './stage.ts';
import type { Turns } from './turns.ts';

/** What of the machine a decision needs to know. */
export interface PermissionParts {
  /** The person's home directory, absolute: what `~/` in a rule stands for. */
  readonly home: string;
  /** The absolute real path of a program as a command in this workspace would find it; `path` is the PATH that its caller set. */
  resolve(name: string, where: { workspace: string; cwd: string; path?: string | undefined }): string | undefined;
}

/** Who asks, and where. */
export interface Asker {
  readonly principal: string;
  readonly session: string;
  readonly workspace: string;
  /** The daemon's workspace that holds it: what targets are relative to. */
  readonly root: string;
}

/**
 * The policy's decision on the call's effects. Denials end here; what a person must be asked about goes on to `approve`. Of a
 * tool whose effects are separable, the stages after it see the call without what is denied.
 */
export const permission =
  (parts: PermissionParts, turns: Turns, redact: <T>(value: T) => T): Stage =>
  (next) =>
  async (call) => {
    const { tool, input } = checkedOf(call);
    const line = tool.commandOf?.(input as never);
    const targets = tool.effects(input as never).length;
    // Each call waits a turn, with a command line or without: none overtakes one that came before it.
    await turns.take({ line: line?.command, targets, session: call.sessionId, signal: call.controller.signal });
    const question = questionOf(call, parts);
    call.question = question;
    call.checked = { ...checkedOf(call), effects: question.effects };
    if (line) assertEnvironment(call.policy, line.env);
    const whole = { input, question, decided: decide(call.policy, question) };
    const separated = separate(call.policy, tool, whole);
    take(separated?.rest ?? whole, call);
    if (call.decision === 'deny') throw refusalOf(call.policy, whole.decided, question);
    return separated ? withoutDenied(call, separated.denied, { next, redact }) : next(call);
  };

/** What the stages after this one see of the call. */
function take({ input, question, decided }: Judged, call: Call): void {
  call.question = question;
  call.checked = { ...checkedOf(call), input, effects: question.effects };
  call.decided = decided;
  call.decision = decided.decision === 'allow' && call.costAsk ? 'ask' : decided.decision;
  call.rule = decided.by.id;
}

/** The call as the policy is asked about it: its programs are those that are found at this moment. */
export function questionOf(call: Call, parts: PermissionParts): Question {
  const { tool, input } = checkedOf(call);
  const { principal, sessionId: session, workspace, root } = call;
  return toQuestion(tool, input, { asker: { principal, session, workspace, root }, parts });
}

/** What another policy says of a call that was let through before. Throws POLICY_DENIED and its like. */
export function decideAgain(call: Call, policy: Policy, parts: PermissionParts): 'allow' | 'ask' {
  const question = questionOf(call, parts);
  const { tool, input } = checkedOf(call);
  assertEnvironment(policy, tool.commandOf?.(input as never)?.env ?? {});
  const decided = decide(policy, question);
  if (decided.decision === 'deny') throw refusalOf(policy, decided, question);
  return decided.decision;
}

/** A call in the terms that policies are written in. */
export function toQuestion(
  tool: Tool,
  input: unknown,
  { asker, parts }: { asker: Asker; parts: PermissionParts },
): Question {
  const { workspace, root } = asker;
  const line = tool.commandOf?.(input as never);
  const effects = tool
    .effects(input as never)
    // A command line is judged by what stands in it.
    .filter((it) => !(line && it.kind === 'exec'))
    .map((it) =>
      isPath(it.kind) ? { kind: it.kind, target: toTarget(it.target, { workspace: root, cwd: workspace }) } : it,
    );
  return {
    ...{ tool: tool.name, tier: tierOfCall(tool, input), category: tool.category, effects },
    aliases: tool.aliases.map((it) => it.name),
    destructive: effects.some((it) => it.kind === 'delete'),
    ...(line && { command: commandOf(line, placeOf(line, asker, parts)) }),
    ...{ principal: asker.principal, session: asker.session, home: parts.home, workspace: root },
    isOrdinary: looksIn(root),
  };
}

/** Each target is looked at once, so that a decision that is asked for again says the same. What lies elsewhere is never ordinary. */
function looksIn(root: string): (target: string) => boolean {
  const found = new Map<string, boolean>();
  return (target) => {
    const known = found.get(target) ?? (!target.startsWith('/') && isOrdinary(join(root, target)));
    found.set(target, known);
    return known;
  };
}

function commandOf({ command, unknown }: CommandLine, place: CommandPlace): ParsedCommand {
  const parsed = parseCommand(command, place);
  return unknown === undefined ? parsed : { ...parsed, unknown: [unknown, ...parsed.unknown] };
}

const isPath = (kind: string): boolean => kind === 'read' || kind === 'write' || kind === 'delete';

function placeOf(
  line: { cwd: string; env: Readonly<Record<string, string>> },
  { workspace, root }: Asker,
  parts: PermissionParts,
): CommandPlace {
  const cwd = `${workspace}/${line.cwd}`;
  const path = line.env.PATH;
  return {
    ...{ workspace: root, cwd, home: parts.home },
    resolve: (name) => parts.resolve(name, { workspace: root, cwd, path }),
    // A variable can make any program run another (LD_PRELOAD, GIT_EXTERNAL_DIFF …).
    exported: line.env,
  };
}

/** Variables that a caller sets reach its command only where every policy says so. Throws POLICY_DENIED. */
function assertEnvironment(policy: Policy, env: Readonly<Record<string, string>>): void {
  const refusal = refusedVariables(policy, env);
  if (!refusal) return;
  const { names, allowed, name } = refusal;
  throw new ToolError('POLICY_DENIED', `policy \`${name}\` lets no caller set ${names}`, {
    rule: 'environment',
    suggestion: `Its \`environment\` allows: ${allowed}.`,
  });
}

/** As `decide`, for whoever only wants to know: variables that no caller may set are refused in the same way as by a call. */
export function decideWhole(policy: Policy, question: Question, env: Readonly<Record<string, string>> = {}): Decided {
  const decided = decide(policy, question);
  const refusal = refusedVariables(policy, env);
  if (!refusal) return decided;
  const { names, allowed, name } = refusal;
  const reason = `No caller may set ${names}; \`environment\` allows: ${allowed}.`;
  const by = { id: 'environment', decision: 'deny', reason, source: name } as const;
  return { ...decided, decision: 'deny', by, rules: [by, ...decided.rules] };
}

/** What the first policy that must agree refuses of them, and says instead. */
function refusedVariables(policy: Policy, env: Readonly<Record<string, string>>) {
  for (const { name, environment } of layersOf(policy)) {
    if (environment === undefined) continue;
    const refused = Object.keys(env).filter((it) => !environment.some((allowed) => covers(allowed, it)));
    if (refused.length === 0) continue;
    return { name, names: refused.slice(0, 8).join(', '), allowed: environment.join(', ') || 'none' };
  }
  return undefined;
}

const covers = (allowed: string, name: string): boolean =>
  allowed.endsWith('*') ? name.startsWith(allowed.slice(0, -1)) : name === allowed;
