/** Holds a call whose decision is `ask` until a person answers. A waiting call takes no slot at a host, so other calls go on. */

import type { Effect } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { runByOf } from '../../base/protected-names.ts';
import { visible, visibleInLine } from '../../base/text/shown-text.ts';
import { firstAskerOf, gitToolFor } from '../../policy/explain.ts';
import type { PolicyQuestion } from '../../policy/question.ts';
import type { RuleFacts } from '../../policy/schema.ts';
import type { FileFingerprint } from '../../policy/shell/programs.ts';
import { leavesQuestion } from '../../store/approvals/answers.ts';
import type {
  ApprovalDraft,
  Grant,
  GrantFacts,
  PersonAnswer,
  ShownEffect,
  WholeQuestion,
} from '../../store/approvals/approval.ts';
import type { Approvals } from '../../store/approvals/approvals.ts';
import { isCommit, runsBy } from '../../tools/runs.ts';
import type { Preview } from '../../tools/tool.ts';
import type { OpeningQuestion } from '../doors/openings.ts';
import { protectedTargetOf } from '../permission.ts';
import { type Approval, type ClearedCall, type JudgedCall, outcomeOf, type Stage } from '../stage.ts';
import type { ApprovalContext } from './approval-context.ts';
import { type Binding, bindingHash, differencesOf, subjectHash } from './binding.ts';
import { hasInlineCode, withVisibleText } from './command-impact.ts';
import { coverageOf, impactOf, programsOf, reachOf, rememberedFor, undoable, warned } from './impact.ts';
import { isHeadless, settingsOf } from './settings.ts';
import { cutEffect, cutText, cutValue, hiddenIn, TARGET_CHARS_MAX, wholeValue, withoutDefaults } from './shown.ts';

export interface ApproveDeps {
  readonly limits: Limits;
  /** How many clients could answer a question about a call of this session now. */
  approvers(sessionId: string): number;
  /** Hides secrets in plain data. */
  redact<T>(value: T): T;
  /** The hashes of the files that the call would change and, with `diff`, what it would change in them. */
  preview(call: JudgedCall, wants: { diff: boolean }): Promise<Preview>;
  /** The present state of the files and directories that decide what the call does. */
  context(call: JudgedCall): Promise<ApprovalContext>;
  /** The call as the policy would judge it now: its programs are looked up again. */
  questionNow(call: JudgedCall): PolicyQuestion;
  /** Identifies the program at a real path; undefined when no file is there. */
  fingerprint(path: string): FileFingerprint | undefined;
  /** What a person is asked about a call of `access_request`; undefined for all others. */
  openingOf(call: JudgedCall): Promise<OpeningQuestion | undefined>;
  /** The text of a policy rule that would allow such calls permanently. */
  proposeRule(question: PolicyQuestion): string;
}

/** Throws APPROVAL_DENIED, APPROVAL_TIMEOUT, RATE_LIMITED, STORE_FAILED, or the reason of an abort while the call waits. */
export const approve =
  (approvals: Approvals, deps: ApproveDeps): Stage<JudgedCall, ClearedCall> =>
  (next) =>
  async (call) => {
    // A preview needs no approval: it changes nothing, and what it reads is judged by rules of its own.
    if (call.decision === 'allow' || call.options.preview) return next({ ...call, approval: undefined });
    const view = approvalViewOf(call, await deps.openingOf(call), deps);
    const remembered = approvals.remembered(view.facts, call.id);
    // A yes to an earlier plan is none to this one.
    const { tool } = call.checked;
    const isPlanned = tool.before?.prepare || runsBy(tool, 'toolchains');
    const grant = isPlanned && remembered?.decision === 'approve' ? undefined : remembered;
    if (grant?.decision === 'approve')
      return { ...(await outcomeOf(next, { ...call, approval: {} })), approvalGranted: true };
    const denial = grant ?? approvals.deniedLately(view.facts);
    if (denial) throw denied(call, denial, grant ? 'remembered' : 'repeated');
    assertApproverPresent(call, { approvals, deps, facts: view.facts });
    const { signal } = call.controller;
    const [{ preImages, diff, undo }, context] = await Promise.all([
      deps.preview(call, { diff: true }),
      deps.context(call),
    ]);
    signal.throwIfAborted();
    const binding = bindingOf(call, { preImages: [...preImages, ...context.states], writes: context.writes, deps });
    const viewWithDiff = withDiff(undo === 'full' ? withUndo(view) : view, diff, deps);
    const viewOfAll = withReplaced(withContext(viewWithDiff, context, deps), preImages);
    const draft = draftOf(call, { view: viewOfAll, diff, undo: undoOf(call, undo), binding, deps });
    const answer = await approvals.request(draft, {
      signal,
      onRequested: ({ approvalId }) => call.announce({ status: 'blocked-on-user', approvalId }),
    });
    try {
      if (answer.decision === 'deny') throw denied(call, answer, 'asked');
      signal.throwIfAborted();
      let approvalGranted = false;
      const approval: Approval = {
        confirm: async () => {
          await confirm(call, { answer, binding, approvals, deps });
          approvalGranted = true;
        },
        preImages: call.checked.tool.preview && preImages,
      };
      call.announce({ status: 'queued', position: 0 });
      return { ...(await outcomeOf(next, { ...call, approval })), approvalGranted };
    } finally {
      const withdraw = signal.aborted && !leavesQuestion(signal.reason as ToolError);
      approvals.release(answer.approvalId, { withdraw });
    }
  };

interface AskingDecision {
  readonly question: PolicyQuestion;
  /** The rule that messages name. */
  readonly by: Pick<RuleFacts, 'id' | 'reason'>;
  /** Ids of all rules that ask. */
  readonly askingRules: readonly string[];
}

function askingDecisionOf(call: JudgedCall): AskingDecision {
  const { decision, decided, question, cost, checked } = call;
  if (decision !== 'ask') throw new Error('this stage handles only calls for which the policy says ask');
  const asking = decided.rules.filter((it) => it.decision === 'ask');
  const ofCost = { id: `tiers.${checked.tier}.costUsdAskAbove`, reason: 'Its cost exceeds the soft limit of the day.' };
  const what = isCommit(checked) ? 'commit of what such a command did' : 'call like this';
  const ofTool = { id: `${checked.tool.name}.asks`, reason: `A person is asked about each ${what}.` };
  const target = protectedTargetOf(call, question);
  const ofName = target !== undefined && { id: 'protected-names', reason: reasonOf(target) };
  const by = ofName || (decided.decision === 'ask' ? firstAskerOf(asking) : cost?.asks ? ofCost : ofTool);
  const more = [...asking.map((it) => it.id), ...(cost?.asks ? [ofCost.id] : [])];
  return { question, by, askingRules: [...new Set([by.id, ...more])] };
}

/** Why a person is asked before a path with a protected name changes. */
const reasonOf = (target: string): string =>
  `Programs of yours run or obey \`${cutText(target, TARGET_CHARS_MAX)}\`: ${runByOf(target)}.`;

/** Which rule asks about a call that waits for a person, and why it does. */
export function askingRuleOf(call: JudgedCall): { rule: string; reason: string } {
  const { by } = askingDecisionOf(call);
  return { rule: by.id, reason: by.reason };
}

/** What the person is shown of the call, and the facts that remembered answers are compared by. */
interface ApprovalView {
  readonly hides: boolean;
  readonly facts: GrantFacts;
  readonly shown: Pick<ApprovalDraft, 'input' | 'impact' | 'estimatedMs'>;
  /** All that the call does, and its input with more room than what is shown. */
  readonly whole: WholeQuestion;
  /** Whether the shown input lacks parts of it. */
  readonly cut: boolean;
  /** Set for a call that asks for a path. */
  readonly opening?: OpeningQuestion | undefined;
}

/** The most effects of one call that a person is shown. */
const EFFECTS_MAX = 64;

function approvalViewOf(
  call: JudgedCall,
  opening: OpeningQuestion | undefined,
  { redact, limits }: ApproveDeps,
): ApprovalView {
  const { tool, input, tier } = call.checked;
  const { by, askingRules, question } = askingDecisionOf(call);
  const { command, destructive, effects: declared } = question;
  const effects = command ? [...declared, ...command.redirects] : declared;
  const impact =
    opening?.impact ??
    impactOf({
      tool: tool.name,
      tier,
      effects: declared,
      command,
      destructive,
      unknown: [],
      costUsd: call.cost?.usd,
    });
  const given = withoutDefaults(input, tool.input);
  const part = cutValue(redact(given), limits.approvalShownChars);
  const cut = part.cut || effects.length > EFFECTS_MAX;
  // High, so that no yes to a whole tool covers it.
  const impactOfName = by.id === 'protected-names' ? warned(impact, 'high', by.reason) : impact;
  const impactOfShown = cut ? warned(impactOfName, 'medium', 'Only part of it is shown here') : impactOfName;
  const hidden = hiddenIn({ input, effects }, redact);
  const finalImpact =
    hidden > 0 ? warned(impactOfShown, 'high', `${hidden} parts are hidden as secrets`) : impactOfShown;
  const { sessionId, sessionName, principal, workspace } = call;
  const runs = command?.commands.map(({ text }): Effect => ({ kind: 'exec', target: text })) ?? [];
  const allEffects = redact([...effects, ...runs].map(cutEffect));
  const whole = { input: wholeValue(redact(given), limits.approvalWholeChars), effects: allEffects };
  return {
    hides: hidden > 0,
    facts: {
      sessionName,
      sessionId,
      principal,
      workspace,
      tool: tool.name,
      subjectHash: subjectHash(tool.name, input),
      rule: by.id,
      askingRules,
      level: finalImpact.level,
      policyVersion: call.policy.version,
      delegated: call.budget && true,
      accountId: call.budget && call.accountId,
      reach: command && reachOf(command),
      programs: command && programsOf(command),
      ...(command && hasInlineCode(command.commands) && { hasInlineCode: true }),
      ...opening?.facts,
      // The next preview is another one.
      unknown: hidden > 0 || isCommit(call.checked) || (command !== undefined && isUnknown(command)),
    },
    shown: { input: part.value, impact: redact(finalImpact) },
    whole,
    cut: part.cut,
    opening,
  };
}

/** Marks the impact as undoable: the undo journal will keep every change of the call. */
const withUndo = (view: ApprovalView): ApprovalView => ({
  ...view,
  shown: { ...view.shown, impact: undoable(view.shown.impact) },
});

/** Adds a warning when redaction hides parts of the diff. */
function withDiff(view: ApprovalView, diff: string | undefined, { redact }: ApproveDeps): ApprovalView {
  const hidden = diff === undefined ? 0 : hiddenIn(diff, redact);
  if (hidden === 0) return view;
  const impact = warned(view.shown.impact, 'high', `${hidden} parts of the diff are hidden as secrets`);
  const facts: GrantFacts = { ...view.facts, level: 'high', unknown: true };
  return { ...view, hides: true, facts, shown: { ...view.shown, impact } };
}

/** Adds the context of the call: the directory that it really runs in, and whether every named file was looked at. */
function withContext(view: ApprovalView, context: ApprovalContext, { redact }: ApproveDeps): ApprovalView {
  const { complete, runsIn, usualMs: estimatedMs } = context;
  const { facts } = view;
  const shown = { ...view.shown, estimatedMs };
  let { impact } = shown;
  if (runsIn !== undefined) impact = warned(impact, 'low', redact(`Runs in ${cutText(runsIn, TARGET_CHARS_MAX)}`));
  if (complete) return { ...view, shown: { ...shown, impact } };
  impact = warned(impact, 'medium', 'Names more files than a yes can be bound to: they may change before it runs');
  return { ...view, facts: { ...facts, level: impact.level, unknown: true }, shown: { ...shown, impact } };
}

/** Marks writes to files that are there, and puts those effects first that destroy most. */
function withReplaced(view: ApprovalView, preImages: Preview['preImages']): ApprovalView {
  const existing = new Set(preImages.filter(({ hash }) => hash !== null).map(({ path }) => path));
  const effects = view.whole.effects
    .map((it): ShownEffect => (it.kind === 'write' && existing.has(it.target) ? { ...it, replaces: true } : it))
    .toSorted((a, b) => rankOf(a) - rankOf(b));
  return { ...view, whole: { ...view.whole, effects } };
}

/** Commands come last, so that the cut takes them first: the input shows the whole line anyway. */
const RANKS = ['delete', 'replace', 'write', 'connect', 'query', 'read', 'exec'];
const rankOf = ({ kind, replaces }: ShownEffect): number => RANKS.indexOf(replaces ? 'replace' : kind);

/** Whether the call can be undone; undefined if it changes nothing. Files are journalled, what commands do is not. */
function undoOf({ checked: { tier, tool } }: JudgedCall, undo: Preview['undo']): ApprovalDraft['undo'] {
  if (tier === 'read_only') return undefined;
  return undo ?? (tier === 'write' && tool.preview ? 'full' : 'none');
}

const isUnknown = ({ commands, unknown }: NonNullable<PolicyQuestion['command']>): boolean =>
  unknown.length > 0 || commands.some((it) => it.unknown !== undefined);

interface DraftParts {
  readonly view: ApprovalView;
  readonly diff: string | undefined;
  readonly undo: ApprovalDraft['undo'];
  readonly binding: Binding;
  readonly deps: ApproveDeps;
}

function draftOf(call: JudgedCall, { view, diff, undo, binding, deps }: DraftParts): ApprovalDraft {
  const { by, question } = askingDecisionOf(call);
  const { timeoutMs, rememberMaxMs } = settingsOf(call.policy);
  const { level, ...facts } = view.facts;
  const wholeDiff = diff === undefined ? undefined : deps.redact(diff);
  const shownOf = (text: string, charsMax: number) => visible(cutText(text, charsMax));
  const { approvalShownChars: shownMax, approvalWholeChars: wholeMax } = deps.limits;
  const effects = view.whole.effects.slice(0, EFFECTS_MAX);
  const isCut = view.cut || effects.length < view.whole.effects.length || (wholeDiff?.length ?? 0) > shownMax;
  return {
    ...facts,
    ...view.shown,
    effects,
    ...(isCut && {
      truncated: true as const,
      whole: { ...view.whole, diff: wholeDiff && shownOf(wholeDiff, wholeMax) },
    }),
    undo,
    client: call.client,
    parents: call.parents,
    cwd: visibleInLine(cutText(binding.cwd, TARGET_CHARS_MAX)),
    impact: withVisibleText(view.shown.impact),
    costUsd: call.cost?.usd,
    diff: wholeDiff && shownOf(wholeDiff, shownMax),
    remember: view.opening
      ? { door: view.opening.covers }
      : isCommit(call.checked)
        ? {}
        : coverageOf(question.command, level),
    callId: call.id,
    reason: view.opening?.reason ?? by.reason,
    bindingHash: bindingHash(binding),
    timeoutMs,
    ...rememberedFor(question.command, rememberMaxMs),
    // A proposed rule repeats the words of the call and is stored and sent, so none is made for words with secrets or inline code.
    ...(!view.hides && !facts.hasInlineCode && !view.opening && { proposedRule: deps.proposeRule(question) }),
  };
}

function bindingOf(
  call: JudgedCall,
  { preImages, writes, deps }: Pick<Binding, 'preImages' | 'writes'> & { deps: ApproveDeps },
): Binding {
  const { tool, input } = call.checked;
  const paths = new Set(deps.questionNow(call).command?.commands.flatMap((it) => it.programPath ?? []));
  const line = tool.commandOf?.(input as never);
  return {
    tool: { name: tool.name, version: tool.version },
    input,
    programs: [...paths].map((path) => deps.fingerprint(path) ?? missingProgram(path)),
    cwd: line?.cwd ?? '.',
    environment: line?.env ?? {},
    policyVersion: call.policyNow().version,
    delegated: call.budget !== undefined,
    preImages,
    writes,
  };
}

const missingProgram = (path: string): FileFingerprint => ({
  path,
  dev: '0',
  ino: '0',
  size: '-1',
  mtimeNs: '0',
  ctimeNs: '0',
});

interface ConfirmParts {
  readonly answer: PersonAnswer;
  readonly binding: Binding;
  readonly approvals: Approvals;
  readonly deps: ApproveDeps;
}

async function confirm(call: JudgedCall, { answer, binding, approvals, deps }: ConfirmParts): Promise<void> {
  const { preImages } = await deps.preview(call, { diff: false });
  // The context is read last, to keep the time between this look and the start short.
  const { states, writes } = await deps.context(call);
  call.controller.signal.throwIfAborted();
  const now = bindingOf(call, { preImages: [...preImages, ...states], writes, deps });
  const changed = differencesOf(binding, now);
  // No await from here on: the approval is used for exactly the state that was compared.
  if (changed.length === 0) {
    approvals.use(answer.approvalId, bindingHash(now));
    return;
  }
  approvals.release(answer.approvalId, { withdraw: true });
  const { tool } = call.checked;
  const message = `\`${tool.name}\` was approved, but since then this has changed: ${changed.join(', ')}`;
  throw new ToolError('APPROVAL_STALE', message, {
    suggestion: 'Look at what changed, then call again to ask the person again.',
    details: { approvalId: answer.approvalId, changed },
  });
}

function assertApproverPresent(
  call: JudgedCall,
  { approvals, deps, facts }: { approvals: Approvals; deps: ApproveDeps; facts: GrantFacts },
): void {
  if (!isHeadless(call.policy) || deps.approvers(call.sessionId) > 0 || approvals.isAnswered(facts)) return;
  const { by, question } = askingDecisionOf(call);
  const otherTool = gitToolFor(question);
  const message = `rule \`${by.id}\` asks a person about \`${facts.tool}\` (${by.reason}), and nobody is there to ask`;
  throw new ToolError('APPROVAL_DENIED', message, {
    rule: by.id,
    suggestion: `${otherTool ? `${otherTool} ` : ''}Ask the person to run \`ringfence approvals watch\` or to allow it in the policy, then call again.`,
    details: { headless: true },
  });
}

type Denial = Pick<PersonAnswer | Grant, 'approvalId' | 'by' | 'feedback'>;

const DENIAL_TEXT = {
  asked: 'the person said no to',
  remembered: 'the person said no for good to calls such as',
  repeated: 'the person denied exactly this call a moment ago:',
} as const;

function denied(call: JudgedCall, denial: Denial, how: keyof typeof DENIAL_TEXT): ToolError {
  const { approvalId, by, feedback } = denial;
  call.announce({ status: 'rejected-by-user' });
  const feedbackText = feedback === undefined ? '' : `: ${feedback}`;
  return new ToolError('APPROVAL_DENIED', `${DENIAL_TEXT[how]} \`${call.checked.tool.name}\`${feedbackText}`, {
    rule: askingDecisionOf(call).by.id,
    suggestion: 'Do something else, or ask the person what they want; the same call would be denied again.',
    details: { approvalId, by, feedback },
  });
}
