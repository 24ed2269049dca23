/** Runs a call that is one HTTP request: the egress process makes the request, and reaches only hosts that every policy layer lists. */
import { isUtf8 } from 'node:buffer';
import type { HttpAnswer, HttpRequest } from '../../egress/messages.ts';
import { ToolError } from '../../errors.ts';
import type { Egress } from '../../hosts/egress.ts';
import type { Limits } from '../../limits.ts';
import type { Powers } from '../../powers.ts';
import { type Attempt, failed, type Outcome, succeeded } from '../outcome.ts';
import type { ClearedCall } from '../stage.ts';
import { networkOf } from './bounds.ts';

export interface FetchParts {
  readonly egress: Egress;
  readonly limits: Limits;
  readonly powers: Powers;
}

const RULE = 'tiers.external_api.network';

/** Gives the data of the answer, POLICY_DENIED or UPSTREAM_FAILED; `beforeStart` can still refuse the call, and what it throws is thrown. */
export async function runFetch(
  call: ClearedCall,
  { egress, limits, powers }: FetchParts,
  { attempt, beforeStart }: { attempt: Attempt; beforeStart: () => Promise<void> },
): Promise<Outcome> {
  const request = call.checked.input as HttpRequest;
  const { effects } = call.checked;
  const layers = networkOf(call.policy, 'external_api');
  const target = effects[0]?.target ?? request.url;
  if (!layers) throw denied(target, 'the policy lists no host that may be connected to');
  const { signal } = call.controller;
  const { answer, egress: report } = await egress.lend(layers, signal, async ({ fetch }) => {
    await beforeStart();
    attempt.started = true;
    call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
    return { answer: await fetch(request, limits.callTimeoutMs.external_api) };
  });
  const connected = report === 'lost' ? [] : report.connected;
  const attemptWithHosts = { ...attempt, ...(connected.length > 0 && { connected }) };
  if (!('status' in answer)) return failed(refusalOf(answer, target), attemptWithHosts);
  const body = Buffer.from(answer.body);
  const usage = { cpuMs: 0, outputBytes: body.length, verdict: 'ok', enforcedBy: 'egress proxy' } as const;
  return succeeded(toData(answer, body), { ...attemptWithHosts, usage });
}

type ReceivedAnswer = Extract<HttpAnswer, { status: number }>;

function refusalOf(answer: Exclude<HttpAnswer, ReceivedAnswer>, target: string): ToolError {
  if ('refused' in answer) return denied(target, answer.refused);
  return new ToolError('UPSTREAM_FAILED', `${target} gave no answer: ${answer.failed}`.slice(0, 500).toWellFormed());
}

function toData({ status, headers, truncated }: ReceivedAnswer, body: Buffer) {
  const encoding = isUtf8(body) ? 'utf-8' : 'base64';
  return { status, headers, body: body.toString(encoding), encoding, truncated };
}

function denied(target: string, why: string): ToolError {
  return new ToolError('POLICY_DENIED', `connecting to \`${target}\` is refused: ${why}`.slice(0, 500), {
    rule: RULE,
    suggestion: `Ask the person to add \`${target}\` to ${RULE}.allow in the policy.`,
    details: { decision: 'deny' },
  });
}
