/** Runs a call that is one HTTP request: the egress process makes the request, and reaches only hosts that every policy layer lists. */
import { isUtf8 } from 'node:buffer';
import type { HttpAnswer, HttpAsked } from '../../egress/messages.ts';
import { ToolError } from '../../errors.ts';
import type { Egress } from '../../hosts/egress.ts';
import type { Limits } from '../../limits.ts';
import type { Powers } from '../../powers.ts';
import { type Call, checkedOf } from '../stage.ts';
import { networkOf } from './bounds.ts';

export interface FetchParts {
  readonly egress: Egress;
  readonly limits: Limits;
  readonly powers: Powers;
}

const RULE = 'tiers.external_api.network';

/**
 * Gives the data of the answer; `beforeStart` can still refuse the call. Throws POLICY_DENIED, UPSTREAM_FAILED, and
 * what `beforeStart` throws.
 */
export async function runFetch(
  call: Call,
  { egress, limits, powers }: FetchParts,
  beforeStart: () => Promise<void>,
): Promise<unknown> {
  const asked = checkedOf(call).input as HttpAsked;
  const { effects } = checkedOf(call);
  const layers = networkOf(call.policy, 'external_api');
  const target = effects[0]?.target ?? asked.url;
  if (!layers) throw denied(target, 'the policy lists no host that may be connected to');
  const { signal } = call.controller;
  const { answer, egress: report } = await egress.lend(layers, signal, async ({ fetch }) => {
    await beforeStart();
    call.outcome.started = true;
    call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
    return { answer: await fetch(asked, limits.callTimeoutMs.external_api) };
  });
  if (report !== 'lost' && report.connected.length > 0) call.outcome.connected = report.connected;
  const answered = answeredOf(answer, target);
  const body = Buffer.from(answered.body);
  call.outcome.usage = { cpuMs: 0, outputBytes: body.length, verdict: 'ok', enforcedBy: 'egress proxy' };
  return toData(answered, body);
}

type Answered = Extract<HttpAnswer, { status: number }>;

function answeredOf(answer: HttpAnswer, target: string): Answered {
  if ('refused' in answer) throw denied(target, answer.refused);
  if ('status' in answer) return answer;
  throw new ToolError('UPSTREAM_FAILED', `${target} gave no answer: ${answer.failed}`.slice(0, 500).toWellFormed());
}

function toData({ status, headers, truncated }: Answered, body: Buffer) {
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
