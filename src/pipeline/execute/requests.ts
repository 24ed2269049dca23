/**
 * Asks servers on behalf of a tool that needs their answers. What a call does is what the policy judged: the input
 * names the server, which is a `connect` effect, and a request to any other destination is not sent. The egress process
 * sends the rest, and reaches only hosts that every policy layer lists. Nothing that a server sent is parsed here.
 */
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Egress } from '../../hosts/egress.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import {
  type AnsweredRequest,
  destinationOf,
  type ServerAnswer,
  type ServerRequest,
} from '../../tools/context/requests.ts';
import type { ClearedCall } from '../stage.ts';

export interface RequestParts {
  readonly egress: Egress;
  readonly limits: Limits;
  readonly powers: Powers;
}

interface Answers {
  readonly answered: AnsweredRequest[];
  /** Connections that were made, as the audit tells them. */
  readonly connected: { target: string; count: number }[];
}

/** Requests as a host sends them: a compromised one could send anything. */
const requestShape = z.strictObject({
  url: z.string().max(8192),
  method: z.enum(['GET', 'POST']),
  headers: z.record(
    z.string().regex(/^[a-z-]{1,64}$/),
    z
      .string()
      .max(1024)
      .regex(/^[\x20-\x7e]*$/),
  ),
  body: z
    .string()
    .max(1024 * 1024)
    .optional(),
  keepBytes: z.int().min(0),
});

/** Answers in the order of the requests. A server that does not answer in time costs only its answers. */
export async function askServers(
  planned: unknown,
  { call, layers }: { readonly call: ClearedCall; readonly layers: readonly NetworkLayer[] | undefined },
  parts: RequestParts,
): Promise<Answers> {
  const { egress, limits, powers } = parts;
  const requests = checked(planned, call, limits);
  if (!layers) {
    const missing = { missing: 'the policy lists no host that may be connected to' };
    return { answered: requests.map((request) => ({ request, answer: missing })), connected: [] };
  }
  const outOfTime = new AbortController();
  const timer = powers.after(limits.serverAnswersMs, () => outOfTime.abort());
  const signal = AbortSignal.any([call.controller.signal, outOfTime.signal]);
  const answers = new Array<ServerAnswer>(requests.length).fill({ missing: 'the servers took too long' });
  const queue = requests.entries();
  let bytes = 0;
  /** Sends one request after another, as long as there are any. */
  const lane = async () => {
    const ran = await egress.lend(layers, signal, async ({ fetch }) => {
      for (const [at, request] of queue) {
        if (outOfTime.signal.aborted) break;
        const { url, method, headers, body } = request;
        const bounds = { bytesMax: limits.httpBodyBytesMax, withinMs: limits.callTimeoutMs.external_api };
        const fetched = fetch({ url, method, headers, body, ...bounds });
        const answer = await fetched.catch((error: unknown) => {
          if (outOfTime.signal.aborted) return undefined;
          throw error;
        });
        if (!answer) break;
        const kept = 'status' in answer ? Math.min(answer.body.length, request.keepBytes) : 0;
        bytes += kept;
        answers[at] = bytes > limits.serverAnswersBytesMax ? TOO_MUCH : toAnswer(answer, kept);
      }
      return {};
    });
    return ran.egress === 'lost' ? [] : ran.egress.connected;
  };
  try {
    const lanes = Array.from({ length: Math.min(limits.serverLanesMax, requests.length) }, () => lane());
    const connected = summed((await Promise.all(lanes)).flat());
    return { answered: requests.map((request, at) => ({ request, answer: answers[at] as ServerAnswer })), connected };
  } finally {
    timer.cancel();
    outOfTime.abort();
  }
}

/** One entry for each target. */
function summed(all: Answers['connected']): Answers['connected'] {
  const counts = new Map<string, number>();
  for (const { target, count } of all) counts.set(target, (counts.get(target) ?? 0) + count);
  return [...counts].map(([target, count]) => ({ target, count }));
}

const TOO_MUCH: ServerAnswer = { missing: 'the answers before it took all bytes that a call may have' };

type Fetched = Awaited<ReturnType<Parameters<Parameters<Egress['lend']>[2]>[0]['fetch']>>;

function toAnswer(answer: Fetched, kept: number): ServerAnswer {
  if ('refused' in answer) return { missing: answer.refused };
  if ('late' in answer) return { missing: answer.late };
  if ('failed' in answer) return { missing: answer.failed };
  const { status, body, truncated } = answer;
  return { status, body: body.subarray(0, kept), truncated: truncated || kept < body.length };
}

/** The requests, if the policy judged each of their destinations. Throws INTERNAL. */
function checked(planned: unknown, { checked: { tool, effects } }: ClearedCall, limits: Limits): ServerRequest[] {
  const requests = z.array(requestShape).max(limits.serverRequestsMax).safeParse(planned);
  const judged = new Set(effects.filter((it) => it.kind === 'connect').map((it) => it.target));
  if (requests.success && requests.data.every((it) => URL.canParse(it.url) && judged.has(destinationOf(it.url))))
    return requests.data;
  throw new ToolError('INTERNAL', `\`${tool.name}\` tried to send requests that its call does not declare`);
}
