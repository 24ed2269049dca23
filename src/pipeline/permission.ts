import { ToolError } from '../base/errors.ts';
import { protectedPart } from '../base/protected-names.ts';
import { decide, layersOf, otherNames, type PolicyDecision } from '../policy/decide.ts';
import type { ParsedCommand, PolicyQuestion } from '../policy/question.ts';
import type { Policy } from '../policy/schema.ts';
import { ordinaryPathsIn, type SettingsBounds } from '../policy/secrets/ordinary-paths.ts';
import type { CommandContext } from '../policy/shell/command.ts';
import { parseCommand } from '../policy/shell/command.ts';
import { packageScript } from '../policy/shell/package-scripts.ts';
import { toTarget } from '../policy/target.ts';
import { type CommandLine, holdsFor, type Tool, tierOfCall } from '../tools/tool.ts';
import type { JudgingTurns } from './queue/judging-turns.ts';
import { refusalOf } from './refusal.ts';
import { type JudgedEffects, separate, withoutDenied } from './separate-effects.ts';
import type { CheckedCall, JudgedCall, Stage } from './stage.ts';

/** What a decision needs to know of the machine. */
export interface PermissionParts {
  /** The person's home directory, absolute: what `~/` in a rule stands for. */
  readonly home: string;
  /** Bounds of reading a settings file, to decide whether it holds a credential. */
  readonly limits: SettingsBounds;
  /** Whether a person said no to the tool for good: its calls are refused as if they were asked about. */
  refused?(call: CheckedCall, question: PolicyQuestion): boolean;
  /** Folders that commands see read-only, whose programs are known by name; absolute. */
  readonly toolchains?: readonly string[];
  /** The absolute real path of the program that a command in this workspace would find; `path` is the caller's PATH. */
  resolve(name: string, where: { workspace: string; cwd: string; path?: string | undefined }): string | undefined;
}

/** The caller of a question, and its workspace. */
export interface Asker {
  readonly principal: string;
  readonly session: string;
  /** Whether the session has got a result that strangers wrote. */
  readonly sawUntrusted: boolean;
  readonly workspace: string;
  /** The configured workspace that holds `workspace`; targets are relative to this root. */
  readonly root: string;
}

/**
 * Decides on the call's effects by its policy. A denied call ends here; an asked one goes on to `approve`. If the
 * tool's effects are separable, the later stages see the call without the denied ones.
 */
export const permission =
  (parts: PermissionParts, turns: JudgingTurns, redact: <T>(value: T) => T): Stage<CheckedCall, JudgedCall> =>
  (next) =>
  async (call) => {
    const { tool, input } = call.checked;
    const line = tool.commandOf?.(input as never);
    const targets = tool.effects(input as never).length;
    // Every call waits its turn, with or without a command line, so that none overtakes an earlier one.
    await turns.take({ line: line?.command, targets, session: call.sessionId, signal: call.controller.signal });
    const question = questionOf(call, parts);
    call.reached({ ...call, checked: { ...call.checked, effects: question.effects } });
    if (line) assertEnvironment(call.policy, line.env);
    const wholeCall = { input, question, decided: decide(call.policy, question) };
    const separated = separate(call.policy, tool, wholeCall);
    const judged = toJudged(call, separated?.rest ?? wholeCall, parts);
    call.reached(judged);
    if (judged.decision === 'deny') throw refusalOf(call.policy, wholeCall.decided, question);
    return separated ? withoutDenied(judged, separated.denied, { next, redact }) : next(judged);
  };

/** The call as later stages see it. */
function toJudged(
  call: CheckedCall,
  { input, question, decided }: JudgedEffects,
  { refused }: Pick<PermissionParts, 'refused'>,
): JudgedCall {
  const { tool, input: checkedInput } = call.checked;
  const isAsked = call.cost?.asks || asksAnyway(tool, checkedInput, question) || refused?.(call, question);
  const wanted = decided.decision === 'allow' && isAsked ? 'ask' : decided.decision;
  // An operator who undoes is not asked: the operator is the person who would answer.
  const decision = wanted === 'ask' && isUndoByOperator(call) ? 'allow' : wanted;
  const checked = { ...call.checked, input, effects: question.effects };
  return { ...call, checked, question, decided, decision, rule: decided.by.id };
}

type Touched = Pick<PolicyQuestion, 'tier' | 'effects'>;

/** Whether a person is asked about the call under any policy that does not deny it. */
export const asksAnyway = (tool: Tool, input: unknown, touched: Touched): boolean =>
  holdsFor(tool.asks, input) || protectedTarget(touched) !== undefined;

/** A path with a protected name that a call itself would write or delete. What commands make is moved away instead. */
const protectedTarget = ({ tier, effects }: Touched): string | undefined =>
  tier === 'read_only'
    ? undefined
    : effects.find(({ kind, target }) => CHANGES.has(kind) && protectedPart(target) !== undefined)?.target;

/** The same of a call; an operator's undo brings back what stood there. */
export const protectedTargetOf = (call: CheckedCall, touched: Touched): string | undefined =>
  isUndoByOperator(call) ? undefined : protectedTarget(touched);

/** Whether an operator brings back what stood there before a call. */
export const isUndoByOperator = ({ isOperator, checked: { tool } }: CheckedCall): boolean =>
  isOperator === true && tool.name === 'calls_undo';

const CHANGES: ReadonlySet<string> = new Set(['write', 'delete']);

/** The call as a question to the policy; its programs are looked up now. */
export function questionOf(call: CheckedCall, parts: PermissionParts): PolicyQuestion {
  const { tool, input } = call.checked;
  const { principal, sessionId: session, workspace, root } = call;
  const asker = { principal, session, sawUntrusted: call.sawUntrusted(), workspace, root };
  return toQuestion(tool, input, { asker, parts });
}

/** Asks another policy about a call that was let through before. Throws POLICY_DENIED, SENSITIVE_FILE. */
export function decideAgain(call: CheckedCall, policy: Policy, parts: PermissionParts): 'allow' | 'ask' {
  const question = questionOf(call, parts);
  const { tool, input } = call.checked;
  assertEnvironment(policy, tool.commandOf?.(input as never)?.env ?? {});
  const decided = decide(policy, question);
  if (decided.decision === 'deny') throw refusalOf(policy, decided, question);
  return decided.decision;
}

/** Turns a call into the terms of policies. */
export function toQuestion(
  tool: Tool,
  input: unknown,
  { asker, parts }: { asker: Asker; parts: PermissionParts },
): PolicyQuestion {
  const { workspace, root } = asker;
  const line = tool.commandOf?.(input as never);
  const effects = tool
    .effects(input as never)
    // A command line is judged by its content.
    .filter((it) => !(line && it.kind === 'exec'))
    .map((it) =>
      isPath(it.kind) ? { kind: it.kind, target: toTarget(it.target, { workspace: root, cwd: workspace }) } : it,
    );
  return {
    tool: tool.name,
    tier: tierOfCall(tool, input),
    category: tool.category,
    effects,
    aliases: [...otherNames(tool), ...(tool.judgedAs?.(input as never) ?? [])],
    destructive: effects.some((it) => it.kind === 'delete'),
    command: line && commandOf(line, contextOf(line, asker, parts)),
    principal: asker.principal,
    session: asker.session,
    sawUntrusted: asker.sawUntrusted,
    home: parts.home,
    workspace: root,
    isOrdinary: ordinaryPathsIn(root, parts.limits),
  };
}

function commandOf({ command, unknown }: CommandLine, context: CommandContext): ParsedCommand {
  const parsed = parseCommand(command, context);
  if (unknown === undefined) return parsed;
  // What a shell in a terminal gets to read is judged when it is typed.
  const { isHidden, ...shown } = parsed;
  return { ...shown, unknown: [unknown, ...parsed.unknown] };
}

const isPath = (kind: string): boolean => kind === 'read' || kind === 'write' || kind === 'delete';

function contextOf(
  line: { cwd: string; env: Readonly<Record<string, string>> },
  { workspace, root }: Asker,
  parts: PermissionParts,
): CommandContext {
  const cwd = `${workspace}/${line.cwd}`;
  const path = line.env.PATH;
  return {
    workspace: root,
    cwd,
    home: parts.home,
    resolve: (name) => parts.resolve(name, { workspace: root, cwd, path }),
    toolchains: parts.toolchains,
    script: packageScript,
    // Variables can make a program run another one (LD_PRELOAD, GIT_EXTERNAL_DIFF …).
    exported: line.env,
  };
}

/** Refuses variables that the caller sets unless every policy layer allows them. Throws POLICY_DENIED. */
function assertEnvironment(policy: Policy, env: Readonly<Record<string, string>>): void {
  const refusal = refusedVariables(policy, env);
  if (!refusal) return;
  const { names, allowed, name } = refusal;
  throw new ToolError('POLICY_DENIED', `policy \`${name}\` does not let callers set ${names}`, {
    rule: 'environment',
    suggestion: `Its \`environment\` allows: ${allowed}.`,
  });
}

/** Decides like `decide` and also denies variables that no caller may set; for questions without a call. */
export function decideWithEnvironment(
  policy: Policy,
  question: PolicyQuestion,
  env: Readonly<Record<string, string>> = {},
): PolicyDecision {
  const decided = decide(policy, question);
  const refusal = refusedVariables(policy, env);
  if (!refusal) return decided;
  const { names, allowed, name } = refusal;
  const reason = `No caller may set ${names}; \`environment\` allows: ${allowed}.`;
  const by = { id: 'environment', decision: 'deny', reason, source: name } as const;
  return { ...decided, decision: 'deny', by, rules: [by, ...decided.rules] };
}

/** The variables that the first refusing layer forbids, and those that it allows. */
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
