/**
 * What commands left at protected names and was moved away: told in the result, and asked about in one question, which
 * stands after the call has ended. A yes puts it back, a no removes it; without an answer it waits in the quarantine.
 */
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { abortAfter, type Powers } from '../../base/powers.ts';
import { runByOf } from '../../base/protected-names.ts';
import { showLine, visible, visibleInLine } from '../../base/text/shown-text.ts';
import type { Hosts, PathView } from '../../hosts/hosts.ts';
import type { KnownTexts } from '../../hosts/quarantine/commands.ts';
import type { KnownPaths } from '../../hosts/quarantine/own-folders.ts';
import type { ItemOwner, Quarantine, QuarantinedItem } from '../../hosts/quarantine/quarantine.ts';
import type { ApprovalDraft } from '../../store/approvals/approval.ts';
import type { Approvals } from '../../store/approvals/approvals.ts';
import { subjectHash } from '../approve/binding.ts';
import { isHeadless } from '../approve/settings.ts';
import { cutText } from '../approve/shown.ts';
import type { ClearedCall } from '../stage.ts';
import { commandBoundsOf } from './bounds.ts';

export interface LeftNamesParts {
  readonly quarantine: Quarantine;
  readonly approvals: Approvals;
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'after' | 'log'>;
  readonly hosts: Pick<Hosts, 'expect' | 'run'>;
  viewOf(call: ClearedCall): PathView;
  approvers(sessionId: string): number;
  redact<T>(value: T): T;
}

/** A moved path, as results name it. */
export interface MovedPath {
  readonly path: string;
  readonly approvalId?: string;
}

/** Paths of one question; the others wait for `ringfence changes keep`. */
const ASKED_MAX = 20;
const ASKED_MS = 600_000;
const NAMED_MAX = 5;
/** Commits and files that are looked at, and the time for it: a name is to be gone within a second. */
const COMMITS_MAX = 200;
const FILES_MAX = 500;
const KNOWN_MS = 1_500;
const paths = z.array(z.string()).max(FILES_MAX);
const known = z.object({ known: paths, missing: paths });
const NOTHING_KNOWN: KnownPaths = { known: new Set(), missing: new Set() };

/** A question about moved paths that waits for its answer. */
interface LeftQuestion {
  /** Ids of those that nobody has decided about. */
  readonly items: Set<string>;
  readonly decided: AbortController;
}

export class LeftNames {
  readonly #parts: LeftNamesParts;
  readonly #calls = new WeakMap<ItemOwner, ClearedCall>();
  readonly #questions = new Set<LeftQuestion>();

  constructor(parts: LeftNamesParts) {
    this.#parts = parts;
  }

  /** The call, for its host. */
  ownerOf(call: ClearedCall): ItemOwner {
    const owner = { callId: call.id, sessionId: call.sessionId, principal: call.principal };
    this.#calls.set(owner, call);
    return owner;
  }

  /** Which files stand so in commits; none if that takes too long. A confined git looks, under the rules of the call. */
  async knownAmong(workspace: string, { commits, files }: KnownTexts, owner: ItemOwner): Promise<KnownPaths> {
    const call = this.#calls.get(owner);
    if (!call) return NOTHING_KNOWN;
    const { hosts, limits, powers, viewOf } = this.#parts;
    const view = viewOf(call);
    const input = { commits: commits.slice(0, COMMITS_MAX), files: files.slice(0, FILES_MAX) };
    const bounds = commandBoundsOf(call.policyNow(), limits, 'read_only');
    using late = abortAfter(KNOWN_MS, powers, new ToolError('TIMEOUT', 'git took too long'));
    try {
      const place = { tier: 'execute', workspace, view } as const;
      const request = { tool: 'git_known_texts', input, bounds, readOnly: true };
      const { result } = await hosts.run(place, request, { signal: late.signal });
      const found = result.ok ? known.parse(result.data) : { known: [], missing: [] };
      return { known: new Set(found.known), missing: new Set(found.missing) };
    } catch (error) {
      powers.log.warn({ error }, 'whether a commit of the person holds a file is not known');
      return NOTHING_KNOWN;
    }
  }

  /** Asks about what programs left that go on after their call. */
  askOwner(items: readonly QuarantinedItem[], owner: ItemOwner): void {
    const call = this.#calls.get(owner);
    if (call) this.ask(items, call);
  }

  /** Asks a person about moved paths; does not wait for the answer. */
  ask(items: readonly QuarantinedItem[], call: ClearedCall): MovedPath[] {
    const { quarantine, approvals, approvers, powers, redact } = this.#parts;
    const sorted = items.toSorted((a, b) => (runByOf(a.path) + a.path < runByOf(b.path) + b.path ? -1 : 1));
    const asked = sorted.slice(0, ASKED_MAX).map((item) => ({ item, look: quarantine.look(item) }));
    let approvalId: string | undefined;
    if (!isHeadless(call.policy) || approvers(call.sessionId) > 0) {
      const onRequested = (it: { approvalId: string }) => (approvalId = it.approvalId);
      const question = { items: new Set(asked.map(({ item }) => item.id)), decided: new AbortController() };
      this.#questions.add(question);
      const draft = this.#draftOf(call, asked);
      approvals
        .request(draft, { signal: question.decided.signal, onRequested })
        .then(async (answer) => {
          if (answer.decision === 'approve') approvals.use(answer.approvalId, draft.bindingHash);
          approvals.release(answer.approvalId, { withdraw: false });
          await this.decide(answer.decision === 'approve' ? 'keep' : 'drop', asked);
        })
        .catch((error: unknown) => {
          // APPROVAL_TIMEOUT, RATE_LIMITED: they wait in the quarantine. CANCELLED: the person decided elsewhere.
          if (!(error instanceof ToolError)) powers.log.error({ error }, 'the answer about a moved path was lost');
        })
        .finally(() => this.#questions.delete(question));
    }
    const ids = new Set(asked.map((it) => it.item.id));
    return sorted.map(({ id, path }) => ({
      path: redact(path),
      ...(approvalId !== undefined && ids.has(id) && { approvalId }),
    }));
  }

  /** Puts items back, or removes them; gives the paths with which it was done, and the errors of the others. */
  async decide(
    how: 'keep' | 'drop',
    items: readonly { readonly item: QuarantinedItem; readonly look?: { readonly digest: string } }[],
  ): Promise<{ done: string[]; errors: { path: string; error: ToolError }[] }> {
    const { quarantine, hosts, powers } = this.#parts;
    const [done, errors]: [string[], { path: string; error: ToolError }[]] = [[], []];
    for (const { item, look } of items) {
      const written = how === 'keep' ? hosts.expect(item.workspace, [item.path]) : undefined;
      try {
        if (how === 'drop') quarantine.drop(item);
        else await quarantine.keep(item, look?.digest);
        quarantine.trust(item.owner);
        done.push(item.path);
        this.#withdraw(item.id);
      } catch (thrown) {
        powers.log.warn({ error: thrown, path: item.path }, 'a moved path was not put back');
        const error =
          thrown instanceof ToolError ? thrown : new ToolError('CONFLICT', `\`${item.path}\` can't be put back`);
        errors.push({ path: item.path, error });
      } finally {
        await written?.();
      }
    }
    return { done, errors };
  }

  /** Takes a question back once the person has decided about all that it asks, as by `ringfence changes keep`. */
  #withdraw(itemId: string): void {
    for (const { items, decided } of this.#questions)
      if (items.delete(itemId) && items.size === 0)
        decided.abort(new ToolError('CANCELLED', 'a person has decided about these paths'));
  }

  #draftOf(
    call: ClearedCall,
    asked: readonly { item: QuarantinedItem; look: ReturnType<Quarantine['look']> }[],
  ): ApprovalDraft {
    const { redact, limits } = this.#parts;
    const paths = asked.map(({ item }) => item.path);
    const diff = redact(asked.flatMap(({ look }) => look.files.map(toDiff)).join(''));
    const binding = subjectHash(
      'quarantine',
      asked.map(({ item }) => item.id),
    );
    const { sessionId, sessionName, principal, workspace, client, parents, checked, policy } = call;
    const isCut = diff.length > limits.approvalShownChars;
    const effects = paths.map((path) => ({ kind: 'write', target: visibleInLine(path) }) as const);
    const input = redact({ keep: paths.map((it) => visibleInLine(it)) });
    return {
      sessionName,
      delegated: call.budget && true,
      sessionId,
      principal,
      workspace,
      client,
      parents,
      callId: call.id,
      tool: checked.tool.name,
      cwd: '.',
      subjectHash: binding,
      bindingHash: binding,
      rule: 'protected-names',
      askingRules: ['protected-names'],
      reason:
        'A command left these files, which programs of yours run or obey. They were moved away; a yes puts them back.',
      input,
      effects,
      impact: {
        level: 'high',
        description: 'Programs of yours will run or obey what a command left',
        warnings: [...new Set(paths.map((it) => visibleInLine(`${cutText(it, 200)}: ${runByOf(it)}`)))].slice(
          0,
          ASKED_MAX,
        ),
      },
      diff: visible(cutText(diff, limits.approvalShownChars)),
      ...(isCut && {
        truncated: true as const,
        whole: { input, effects, diff: visible(cutText(diff, limits.approvalWholeChars)) },
      }),
      remember: {},
      unknown: true,
      policyVersion: policy.version,
      timeoutMs: ASKED_MS,
      rememberMaxMs: 0,
    };
  }
}

/** A file that was not there before, as a unified diff. */
function toDiff({ path, text }: { path: string; text: string }): string {
  const lines = text.replace(/\n$/, '').split('\n');
  return `--- /dev/null\n+++ b/${path}\n@@ -0,0 +1,${lines.length} @@\n${lines.map((it) => `+${it}\n`).join('')}`;
}

/** Warnings, for the model and its person, about paths that were moved, and others that stay though the command removed them. */
export function leftWarnings(moved: readonly MovedPath[], stayed: readonly string[]): string[] {
  const how = moved.some((it) => it.approvalId !== undefined)
    ? 'the person is asked whether to put them back'
    : 'the person puts them back with `ringfence changes keep PATH`';
  const shownMoved = namesOf(moved.map(({ path }) => path));
  const why = 'programs of the person run or obey such files';
  return [
    ...(moved.length > 0 ? [`moved out of the workspace, since ${why}: ${shownMoved}; ${how}`] : []),
    ...(stayed.length > 0 ? [`still there, since ${why}, and the command had a copy: ${namesOf(stayed)}`] : []),
  ];
}

function namesOf(paths: readonly string[]): string {
  const shown = paths.slice(0, NAMED_MAX).map((it) => showLine(it));
  return `${shown.join(', ')}${paths.length > NAMED_MAX ? ` and ${paths.length - NAMED_MAX} more` : ''}`;
}
