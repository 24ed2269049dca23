/**
 * The requests of a task to its model. What a request may cost at most is taken out of the task's budget and of the
 * limits on costs before it is sent, and corrected by what the model reports.
 */

import { ToolError } from '../../base/errors.ts';
import { waitUnlessAborted } from '../../base/powers.ts';
import { jsonOr } from '../../base/text/json.ts';
import { limitsOf } from '../../pipeline/cost-cap.ts';
import type { ChildSession } from '../../pipeline/execute/child-session.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import type { HttpRequest } from '../../sandbox/egress/messages.ts';
import type { HttpAnswer, HttpResponse } from '../../sandbox/egress/proxy-messages.ts';
import type { CostReservation } from '../../store/cost-ledger.ts';
import type { DaemonParts } from '../capability.ts';
import { type Agents, priceOf } from './agents.ts';
import type { AgentProfile } from './settings.ts';

export type ModelParts = Pick<DaemonParts, 'ledger' | 'limits' | 'powers'> & { readonly agents: Agents };

interface ModelRequestsOptions {
  readonly call: ClearedCall;
  readonly profile: AgentProfile;
  readonly child: ChildSession;
  /** Aborted when the task ends. */
  readonly signal: AbortSignal;
}

/** The conversation so far, as the agent process has it. */
export interface Conversation {
  readonly system: string;
  readonly messages: readonly unknown[];
}

export interface Tokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** An amount that was taken for a request, and is not settled yet. */
interface Taken extends Tokens {
  readonly usd: number | undefined;
  readonly reservation: CostReservation | undefined;
  readonly bytes: number;
}

/** Statuses by which a server says that it is busy and did nothing. */
const BUSY: ReadonlySet<number> = new Set([429, 503, 529]);
const FIRST_WAIT_MS = 500;
/**
 * Bytes of a request for one token of its input, at the least. Texts have three to four; only a text of rare
 * characters has fewer than two.
 */
const BYTES_PER_TOKEN = 2;

export class ModelRequests {
  readonly #parts: ModelParts;
  readonly #options: ModelRequestsOptions;
  readonly #tools: readonly unknown[];
  readonly #toolBytes: number;
  #inputTokens = 0;
  #outputTokens = 0;
  #usd = 0;
  #cycles = 0;
  #taken: Taken | undefined;
  /** Input tokens of the last request as its model counted them, and the bytes of that request. */
  #known: { readonly tokens: number; readonly bytes: number } = { tokens: 0, bytes: 0 };
  /** The secrets of the requests, which texts of the model may repeat in pieces. */
  #secrets: readonly string[] = [];

  /** Throws COST_LIMIT if costs are bounded and the price of the model is unknown. */
  constructor(options: ModelRequestsOptions, parts: ModelParts) {
    this.#parts = parts;
    this.#options = options;
    const { profile, child } = options;
    this.#tools = child.tools(profile.dialect === 'openai' ? 'openai-chat' : 'anthropic');
    this.#toolBytes = Buffer.byteLength(JSON.stringify(this.#tools));
    if (profile.pricesUsdPerMillion === undefined && this.#isCostBounded()) throw unknownPrice(profile.name);
  }

  get usage() {
    const { pricesUsdPerMillion } = this.#options.profile;
    return {
      inputTokens: this.#inputTokens,
      outputTokens: this.#outputTokens,
      usd: pricesUsdPerMillion && this.#usd,
      cycles: this.#cycles,
    };
  }

  get secrets(): readonly string[] {
    return this.#secrets;
  }

  /** Whether the budget left the last answer less room than its profile does. */
  get isSqueezed(): boolean {
    return this.#taken !== undefined && this.#taken.outputTokens < this.#options.profile.maxOutputTokens;
  }

  /** The body of one answer as it was streamed. Throws COST_LIMIT, UPSTREAM_FAILED, POLICY_DENIED, AUTH_REQUIRED. */
  async ask(conversation: Conversation, fetch: (asked: HttpRequest) => Promise<HttpAnswer>): Promise<string> {
    const { agents, limits } = this.#parts;
    const { profile } = this.#options;
    this.settle(undefined);
    this.#taken = this.#take(conversation);
    this.#cycles += 1;
    const { outputTokens: maxOutputTokens } = this.#taken;
    for (let retries = 0; ; retries++) {
      // Read for each attempt, so that a replaced key counts at once.
      const request = await agents.requestOf(profile, { ...conversation, tools: this.#tools, maxOutputTokens });
      this.#secrets = (request.credentials ?? []).map(({ secret }) => secret);
      const answer = toResponse(
        await fetch({
          ...request,
          bytesMax: limits.modelAnswerBytes,
          withinMs: limits.modelAnswerMs,
          idleMs: limits.modelIdleMs,
        }),
      );
      if (answer.status === 200 && !answer.truncated) return Buffer.from(answer.body).toString();
      if (answer.status === 200)
        throw new ToolError('UPSTREAM_FAILED', `the model's answer is longer than ${limits.modelAnswerBytes} bytes`);
      const waitMs = this.#waitMs(answer, retries);
      if (waitMs === undefined) {
        this.settle({ inputTokens: 0, outputTokens: 0 });
        throw statusError(answer);
      }
      await waitUnlessAborted(waitMs, { signal: this.#options.signal, powers: this.#parts.powers });
    }
  }

  /** Books what the model says that an answer took; without a report all that was taken for it stays spent. */
  settle(said: Tokens | undefined): void {
    const taken = this.#taken;
    if (!taken) return;
    this.#taken = undefined;
    const { budget } = this.#options.child;
    const spent = said ?? taken;
    const tokens = spent.inputTokens + spent.outputTokens;
    budget.settle('tokens', { taken: taken.inputTokens + taken.outputTokens, spent: tokens });
    this.#inputTokens += spent.inputTokens;
    this.#outputTokens += spent.outputTokens;
    if (said && said.inputTokens > 0) this.#known = { tokens: said.inputTokens, bytes: taken.bytes };
    if (taken.usd === undefined) return;
    const usd = priceOf(this.#options.profile, spent) ?? 0;
    taken.reservation?.settle(usd);
    budget.settle('usd', { taken: taken.usd, spent: usd });
    this.#usd += usd;
  }

  /** Takes what an answer may cost at most, which is as long as the budget leaves room for. Throws COST_LIMIT. */
  #take({ system, messages }: Conversation): Taken {
    const { profile, child } = this.#options;
    const bytes = this.#toolBytes + Buffer.byteLength(JSON.stringify([system, messages]));
    const added = Math.max(0, bytes - this.#known.bytes);
    const inputTokens = this.#known.tokens + Math.ceil(added / BYTES_PER_TOKEN);
    const outputTokens = Math.floor(Math.min(profile.maxOutputTokens, this.#roomFor(inputTokens)));
    if (outputTokens < 1) throw nothingLeft();
    const { budget } = child;
    const tokens = inputTokens + outputTokens;
    const usd = priceOf(profile, { inputTokens, outputTokens });
    budget.take('tokens', tokens);
    try {
      if (usd !== undefined) budget.take('usd', usd);
    } catch (error) {
      budget.giveBack('tokens', tokens);
      throw error;
    }
    try {
      return { inputTokens, outputTokens, usd, bytes, reservation: this.#reserve(usd) };
    } catch (error) {
      budget.giveBack('tokens', tokens);
      if (usd !== undefined) budget.giveBack('usd', usd);
      throw error;
    }
  }

  /** Tokens of output that the budget has room for behind so many of input. */
  #roomFor(inputTokens: number): number {
    const { budget } = this.#options.child;
    const { pricesUsdPerMillion: prices } = this.#options.profile;
    const byTokens = budget.left('tokens') - inputTokens;
    const usd = budget.left('usd');
    if (!prices || usd === Infinity) return byTokens;
    const left = usd * 1_000_000 - inputTokens * prices.input;
    return Math.min(byTokens, prices.output === 0 ? (left >= 0 ? Infinity : 0) : left / prices.output);
  }

  /** Sets the costs aside within the limits of the policy, as for any call. Throws COST_LIMIT. */
  #reserve(usd: number | undefined): CostReservation | undefined {
    if (usd === undefined) return undefined;
    const { call } = this.#options;
    const { tier, tool } = call.checked;
    const payer = { tier, principal: call.principal, sessionId: call.accountId, callId: call.id, tool: tool.name };
    const reservation = this.#parts.ledger.reserve(usd, { ...payer, limits: limitsOf(call.policyNow(), tier) });
    if (!reservation.ask) return reservation;
    reservation.release();
    throw new ToolError('COST_LIMIT', 'the costs of the day would pass the amount above which a person is asked');
  }

  #isCostBounded(): boolean {
    const { call, child } = this.#options;
    const { max, dayAskAbove = Infinity } = limitsOf(call.policy, call.checked.tier);
    return [child.budget.left('usd'), dayAskAbove, ...Object.values(max)].some(Number.isFinite);
  }

  /** How long to wait before another attempt: as the server asks, or longer each time; undefined if there is none. */
  #waitMs(answer: HttpResponse, retries: number): number | undefined {
    const { limits, powers } = this.#parts;
    if (!BUSY.has(answer.status) || retries >= limits.modelRetriesMax) return undefined;
    const ms = retryAfterMs(answer, powers.now()) ?? FIRST_WAIT_MS * 2 ** retries;
    return ms > limits.modelRetryMs ? undefined : ms;
  }
}

/** Milliseconds that `Retry-After` asks for: seconds, or a date. */
function retryAfterMs({ headers }: HttpResponse, nowMs: number): number | undefined {
  const said = headers['retry-after'];
  if (said === undefined) return undefined;
  const ms = /^\d{1,9}(\.\d+)?$/.test(said) ? Number(said) * 1000 : Date.parse(said) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

function toResponse(answer: HttpAnswer): HttpResponse {
  if ('status' in answer) return answer;
  if ('refused' in answer)
    throw new ToolError('POLICY_DENIED', `connecting to the model is refused: ${answer.refused}`);
  const problem = 'late' in answer ? answer.late : answer.failed;
  throw new ToolError('UPSTREAM_FAILED', `the model gave no answer: ${problem}`.slice(0, 500).toWellFormed());
}

const MESSAGE_CHARS = 500;

function statusError({ status, body }: HttpResponse): ToolError {
  const text = Buffer.from(body).toString();
  const message = `the model's server answered ${status}: ${messageIn(text) ?? text}`;
  return new ToolError('UPSTREAM_FAILED', message.slice(0, MESSAGE_CHARS).toWellFormed(), { details: { status } });
}

/** The message of an error as both dialects write it: `{"error": {"message": …}}`. */
function messageIn(text: string): string | undefined {
  const { error } = (jsonOr(text, undefined) ?? {}) as { error?: { message?: unknown } };
  return typeof error?.message === 'string' ? error.message : undefined;
}

const nothingLeft = (): ToolError => new ToolError('COST_LIMIT', 'the budget has no room for another answer');

const unknownPrice = (profile: string): ToolError =>
  new ToolError('COST_LIMIT', `the profile ${profile} has no prices, so that a budget in US dollars can't be held`, {
    suggestion: `Leave out budget.usd, or ask the person to configure agents.${profile}.pricesUsdPerMillion (0 for a model that costs nothing).`,
  });
