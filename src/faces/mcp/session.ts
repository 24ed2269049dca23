/** A daemon session for MCP clients: calls with cancellation, progress and questions to the person. */
import type { BatchEstimate, BatchResult, CallState, SpanContext, ToolResult } from '../../base/call.ts';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { onAbort, type Powers, type Timer } from '../../base/powers.ts';
import type { LocalOpening, LocalSession, ResultPage } from '../../gateway/local-sessions.ts';
import type { NoticeReceiver } from '../../gateway/outbox.ts';
import type { Session } from '../../gateway/session.ts';
import { parked } from '../../store/approvals/answers.ts';
import type { Approval, Resolution } from '../../store/approvals/approval.ts';
import type { ProgressReporter } from './progress.ts';

type Call = Parameters<LocalOpening['onUpdate']>[0];

export interface McpSessionParts {
  readonly limits: Limits;
  readonly powers: Powers;
  openSession(opening: LocalOpening, audience: NoticeReceiver): LocalSession;
}

export interface McpSessionOptions extends Omit<LocalOpening, 'onUpdate'> {
  /**
   * Asks the person at the client; returns undefined if there was no answer. `signal` is aborted when the question is over. Absent if the
   * client can't be asked while a call waits.
   */
  ask?(approval: Approval, signal: AbortSignal): Promise<Omit<Resolution, 'by'> | undefined>;
  /** Whether the client can be asked at all. */
  readonly asks: boolean;
  congested(): boolean;
  /** Called when the daemon has ended the session. */
  onClosed(): void;
}

export interface CallControl {
  /** Aborted when the client cancels the call or is gone. */
  readonly signal: AbortSignal;
  readonly progress?: ProgressReporter | undefined;
  /** Whether the call ends as soon as a person must be asked, leaving its question open. */
  readonly parks?: boolean;
  readonly span?: SpanContext | undefined;
}

export class McpSession implements NoticeReceiver {
  readonly #options: McpSessionOptions;
  readonly #parts: McpSessionParts;
  readonly #local: LocalSession;
  /** Progress by call or batch id. */
  readonly #progress = new Map<string, ProgressReporter>();
  readonly #parking = new Set<string>();
  /** Timers that end waiting calls, by call id. */
  readonly #waitTimers = new Map<string, Timer>();
  /** Open dialogs at the client, by approval id. */
  readonly #dialogs = new Map<string, AbortController>();
  #closed = false;

  /** Throws RpcError if the session may not be opened with these options. */
  constructor(options: McpSessionOptions, parts: McpSessionParts) {
    this.#options = options;
    this.#parts = parts;
    this.#local = parts.openSession({ ...options, onUpdate: (call, state) => this.#update(call, state) }, this);
  }

  get session(): Session {
    return this.#local.session;
  }
  get asks(): boolean {
    return this.#options.asks;
  }
  get closed(): boolean {
    return this.#closed;
  }
  get congested(): boolean {
    return this.#options.congested();
  }

  /** Runs a tool to its result; never rejects. */
  async call(tool: string, input: unknown, { signal, progress, parks, span }: CallControl): Promise<ToolResult> {
    const callId = this.#parts.powers.uuid();
    if (progress) this.#progress.set(callId, progress);
    if (parks) this.#parking.add(callId);
    try {
      const options = { callId, progress: progress !== undefined, span };
      const result = this.#local.call(tool, input, options);
      using _ = onAbort(signal, () => this.session.abort(callId, cancelled()));
      return await result;
    } finally {
      this.#progress.delete(callId);
      this.#parking.delete(callId);
    }
  }

  /** Like `tools.batch`. Throws RpcError INVALID_PARAMS, OVERLOADED. */
  async batch(
    { calls, ...options }: { readonly calls: readonly unknown[] },
    { signal, progress, span }: CallControl,
  ): Promise<BatchResult | BatchEstimate> {
    const batchId = this.#parts.powers.uuid();
    if (progress) this.#progress.set(batchId, progress);
    try {
      const asked = { calls, options: { ...options, batchId, progress: progress !== undefined } };
      const result = this.#local.batch(asked, span);
      using _ = onAbort(signal, () => this.#local.cancelBatch(batchId));
      return await result;
    } finally {
      this.#progress.delete(batchId);
    }
  }

  /** A part of a kept result. Throws RpcError INVALID_PARAMS. */
  read(params: { ref: string; offset?: number; limit?: number }): Promise<ResultPage> {
    return this.#local.read(params);
  }

  keep(text: string): string {
    return this.#local.keep(text);
  }

  approval(approvalId: string): Approval | undefined {
    return this.#local.approval(approvalId);
  }

  /** Records a person's answer to an open question; a question that is over stays unchanged. */
  answer(approvalId: string, resolution: Omit<Resolution, 'by'>): void {
    const by = `${this.session.options.client} of ${this.session.options.principal}`;
    try {
      this.#local.answer(approvalId, { ...resolution, by });
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      // If the policy forbids remembering, an approval for the session becomes one for this time.
      if (resolution.remember && this.#isOpen(approvalId))
        this.answer(approvalId, { ...resolution, remember: undefined });
    }
  }

  drained(): void {
    this.#local.drained();
  }

  async end(reason: string): Promise<void> {
    this.#onClosed();
    await this.#local.end(reason);
  }

  notify(method: string, params: Record<string, unknown>): void {
    if (method === 'call.output') this.#progress.get(params.callId as string)?.output(params.data as Uint8Array);
    else if (method === 'batch.update')
      this.#progress.get(params.batchId as string)?.say(`${String(params.id)} is done`);
  }

  /** Called by the daemon to end the session. */
  close(): void {
    this.#onClosed();
    this.#options.onClosed();
  }

  #onClosed(): void {
    this.#closed = true;
    for (const timer of this.#waitTimers.values()) timer.cancel();
    for (const dialog of this.#dialogs.values()) dialog.abort();
  }

  #isOpen(approvalId: string): boolean {
    return this.#local.isPending(approvalId);
  }

  #update(call: Call, state: CallState): void {
    this.#waitTimers.get(call.id)?.cancel();
    this.#waitTimers.delete(call.id);
    if (state.status === 'blocked-on-user') this.#blocked(call, state.approvalId);
  }

  /** Handles a call that waits for a person: asks the client's person if possible, and ends the call before the client's own timeout. */
  #blocked({ id, options }: Call, approvalId: string): void {
    const approval = this.#local.approval(approvalId);
    if (!approval) return;
    const park = () => void this.session.abort(id, parked(approval));
    // Delayed, so that the call does not end within the stage that announces its state.
    const delayMs = this.#parking.has(id) ? 0 : this.#parts.limits.mcpApprovalWaitMs;
    this.#waitTimers.set(id, this.#parts.powers.after(delayMs, park));
    const progress = this.#progress.get(options.parentCallId ?? id);
    progress?.say(`waits for a person: ringfence approvals approve ${approvalId}`);
    if (this.#options.ask && !this.#dialogs.has(approvalId)) void this.#ask(approval);
  }

  /**
   * Asks the client's person. The dialog stays open when the call ends without an answer, since a later answer counts for the same call
   * made again.
   */
  async #ask(approval: Approval): Promise<void> {
    const { approvalId } = approval;
    const dialog = new AbortController();
    this.#dialogs.set(approvalId, dialog);
    using _ = this.#local.listen(({ method, params }) => {
      if (method === 'approval.resolved' && params.approvalId === approvalId) dialog.abort();
    });
    try {
      const resolution = await this.#options.ask?.(approval, dialog.signal);
      if (resolution && !this.#closed) this.answer(approvalId, resolution);
    } catch (error) {
      // The client can't be asked after all; the question stays open for others.
      this.#parts.powers.log.info({ approvalId, reason: (error as Error).message }, 'an MCP client gave no answer');
    } finally {
      this.#dialogs.delete(approvalId);
    }
  }
}

const cancelled = (): ToolError =>
  new ToolError('CANCELLED', 'the call was cancelled by its client', { details: { by: 'caller' } });
