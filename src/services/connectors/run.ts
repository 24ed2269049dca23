/** Runs an operation: its request, further attempts where they are safe, and further pages. */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { assertSuccess, errorOf, fieldsOf, isGood, parseBody, type ServiceAnswer } from './answer.ts';
import type { Connector } from './connector.ts';
import type { OperationFile } from './file.ts';
import { parseJsonPath, pick } from './json-path.ts';
import { type PlainRequest, toRequest } from './request.ts';
import type { ServiceLimits } from './service-limits.ts';

export interface OperationRun {
  readonly connector: Connector;
  readonly operation: OperationFile;
  readonly input: Readonly<Record<string, unknown>>;
  /** Equal for each repetition of a call, also after a restart of the daemon. */
  readonly idempotencyKey: string;
}

export interface ServiceLine {
  readonly limits: Limits;
  readonly service: ServiceLimits;
  /** Makes a request with the secrets of the connector. Throws UPSTREAM_FAILED, POLICY_DENIED, the reason of an abort. */
  send(request: PlainRequest): Promise<ServiceAnswer>;
  wait(ms: number): Promise<void>;
}

/** The named fields of the answer, or of all answers if there are pages. Throws ToolError. */
export async function runOperation(run: OperationRun, line: ServiceLine): Promise<Record<string, unknown>> {
  const { connector, operation } = run;
  let next: PlainRequest | undefined = toRequest(connector, operation, run);
  let data: Record<string, unknown> | undefined;
  const pagesMax = operation.paginate?.maxPages ?? 1;
  for (let page = 1; next && page <= pagesMax; page++) {
    const request: PlainRequest = next;
    const answer = await ask(request, run, line);
    const value = parseBody(answer, operation, line.limits);
    assertSuccess(operation, value, new URL(connector.base).host);
    const fields = fieldsOf(operation.output, answer, value);
    data = data ? joined(data, fields) : fields;
    const isFull = Object.values(data).some((it) => Array.isArray(it) && it.length >= line.limits.connectorItemsMax);
    next = operation.paginate && nextPage({ operation, request, page }, answer, { value, fields });
    if (next && (isFull || page === pagesMax)) return { ...data, truncated: true };
  }
  return data ?? {};
}

/** A good answer. Throws the error of a bad one. */
async function ask(request: PlainRequest, run: OperationRun, line: ServiceLine): Promise<ServiceAnswer> {
  const { limits, service } = line;
  const { host } = new URL(run.connector.base);
  const retriesMax = Math.min(run.operation.retry?.max ?? 0, limits.connectorRetriesMax);
  for (let retries = 0; ; retries++) {
    service.assertMayAsk(host);
    const answer = await line.send(request);
    service.answered(answer);
    if (isGood(answer)) return answer;
    const retryAfterMs = service.retryAfterMs(answer);
    const waitMs = retryAfterMs ?? FIRST_WAIT_MS * 2 ** retries;
    if (retries >= retriesMax || waitMs > limits.connectorRetryMs || !mayRepeat(answer, run.operation))
      throw errorOf(answer, { host, retryAfterMs, hints: run.operation.hints });
    await line.wait(waitMs);
  }
}

/** Wait before the second attempt where the service names none; doubles with each further one. */
const FIRST_WAIT_MS = 500;

/** Whether another attempt can't do anything twice: the service did nothing (429), or knows a repetition by its key. */
function mayRepeat({ status }: ServiceAnswer, { request: { method }, retry, idempotency }: OperationFile): boolean {
  if (!retry?.on.includes(status)) return false;
  return status === 429 || method === 'GET' || method === 'HEAD' || idempotency !== undefined;
}

/** Lists of pages one after the other; everything else from the first page. */
function joined(first: Record<string, unknown>, more: Record<string, unknown>): Record<string, unknown> {
  const lists = Object.entries(first).map(([name, it]) => {
    const added = more[name];
    return [name, Array.isArray(it) && Array.isArray(added) ? [...(it as unknown[]), ...(added as unknown[])] : it];
  });
  return Object.fromEntries(lists) as Record<string, unknown>;
}

/** The request of the next page; undefined after the last one. Throws UPSTREAM_FAILED if it lies elsewhere. */
function nextPage(
  { operation, request, page }: { operation: OperationFile; request: PlainRequest; page: number },
  { headers }: ServiceAnswer,
  { value, fields }: { value: unknown; fields: Readonly<Record<string, unknown>> },
): PlainRequest | undefined {
  const paginate = operation.paginate as NonNullable<OperationFile['paginate']>;
  const url = new URL(request.url);
  if (paginate.kind === 'link') {
    const [, link] = /<([^>]{1,2048})>;\s*rel="?next"?/.exec(headers.link ?? '') ?? [];
    if (link === undefined) return undefined;
    const next = URL.parse(link, url);
    if (next?.origin === url.origin) return { ...request, url: next.href };
    const place = next ? `at ${next.host}` : 'at an address that is none';
    throw new ToolError('UPSTREAM_FAILED', `the next page is ${place}, not at ${url.host}`);
  }
  if (paginate.more !== undefined && pick(parseJsonPath(paginate.more), value) !== true) return undefined;
  const param = paginate.param as string;
  if (paginate.kind === 'page') {
    const isEmpty = !Object.values(fields).some((it) => Array.isArray(it) && it.length > 0);
    if (isEmpty) return undefined;
    url.searchParams.set(param, String(page + 1));
    return { ...request, url: url.href };
  }
  const cursor = pick(parseJsonPath(paginate.from as string), value);
  if ((typeof cursor !== 'string' && typeof cursor !== 'number') || cursor === '') return undefined;
  url.searchParams.set(param, String(cursor));
  return { ...request, url: url.href };
}
