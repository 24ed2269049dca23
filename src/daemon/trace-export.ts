/**
 * Sends traces to the collector of config.yaml. The request is made by an egress process of its own, which parses the answer of the
 * collector and may connect to that one address only. The operator named the address, so it may be on this machine or its networks.
 */

import type { Limits } from '../base/limits.ts';
import { abortAfter, type Powers } from '../base/powers.ts';
import { egressProgram, version } from '../base/runtime.ts';
import { readSecret } from '../base/secret-source.ts';
import { Egress } from '../hosts/egress.ts';
import { type NetworkRule, parseNetworkEntry } from '../policy/network.ts';
import type { OutgoingProxy } from '../sandbox/egress/outgoing-proxy.ts';
import type { HttpAnswer } from '../sandbox/egress/proxy-messages.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { rejectedIn } from '../store/telemetry/otlp.ts';
import type { TraceSettings } from '../store/telemetry/settings.ts';
import { type Sent, Tracer } from '../store/telemetry/tracer.ts';

export interface TraceParts {
  readonly sandbox: Sandbox;
  readonly limits: Limits;
  readonly outgoing: OutgoingProxy | undefined;
  readonly powers: Powers;
}

/** Creates the tracer; undefined without settings. Ended with `parts`, and its egress process after it. */
export function createTracer(
  settings: TraceSettings | undefined,
  parts: AsyncDisposableStack,
  { sandbox, limits, outgoing, powers }: TraceParts,
): Tracer | undefined {
  if (!settings) return undefined;
  const egress = parts.use(new Egress({ sandbox, program: egressProgram, limits, outgoing }, powers));
  const exporter = new TraceExporter(settings, { egress, limits, powers });
  const { serviceName, sample } = settings;
  const send = (body: string) => exporter.send(body);
  return parts.use(new Tracer({ serviceName, sample, version, limits, powers, send }));
}

/** Answers after which the same spans may be taken later, as OTLP/HTTP lists them. */
const TEMPORARY: readonly number[] = [429, 502, 503, 504];
const REASON_CHARS_MAX = 200;

interface ExporterParts extends Omit<TraceParts, 'sandbox' | 'outgoing'> {
  readonly egress: Egress;
}

class TraceExporter {
  readonly #settings: TraceSettings;
  readonly #rule: NetworkRule;
  readonly #parts: ExporterParts;
  #works = true;

  constructor(settings: TraceSettings, parts: ExporterParts) {
    this.#settings = settings;
    this.#parts = parts;
    const { hostname, port, protocol } = new URL(settings.endpoint);
    const isLiteral = /^[\d.]+$|:/.test(hostname);
    this.#rule = parseNetworkEntry({
      host: hostname,
      port: Number(port) || (protocol === 'https:' ? 443 : 80),
      ...(!isLiteral && { private: true }),
    });
  }

  /** Makes one request; never rejects. Logs the first failure of the collector and its recovery. */
  async send(body: string): Promise<Sent> {
    const { answer, reason } = await this.#post(body).then(
      (it) => ({ answer: it, reason: reasonOf(it) }),
      (error: unknown) => ({ answer: undefined, reason: (error as Error).message }),
    );
    const { log } = this.#parts.powers;
    const { host } = new URL(this.#settings.endpoint);
    const works = reason === undefined;
    const about = { collector: host, reason: reason && shortened(reason) };
    if (works && !this.#works) log.info({ collector: host }, 'the collector takes traces again');
    if (!works && this.#works) log.warn(about, 'traces can not be sent; calls go on');
    this.#works = works;
    if (works) return takenOf(answer);
    const isFinal = answer && ('status' in answer ? !TEMPORARY.includes(answer.status) : 'refused' in answer);
    return { result: isFinal ? 'refused' : 'again', reason: about.reason };
  }

  async #post(body: string): Promise<HttpAnswer> {
    const { egress, limits, powers } = this.#parts;
    const { endpoint: url, headers: sources } = this.#settings;
    using late = abortAfter(limits.traceExportMs, powers, new Error(`no answer within ${limits.traceExportMs} ms`));
    const headers = Object.fromEntries(Object.entries(sources).map(([name, it]) => [name, readSecret(it).text]));
    const asked = {
      url,
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
      bytesMax: limits.httpBodyBytesMax,
      withinMs: limits.traceExportMs,
    };
    const { answer } = await egress.lend([[this.#rule]], late.signal, async ({ fetch }) => ({
      answer: await fetch(asked),
    }));
    return answer;
  }
}

/** What a collector took of the spans of a request that it answered with success. */
function takenOf(answer: HttpAnswer | undefined): Sent {
  const part = answer && 'body' in answer ? rejectedIn(answer.body) : undefined;
  if (!part) return { result: 'sent' };
  const { rejected, reason } = part;
  return { result: 'sent', rejected, reason: shortened(`it did not take ${rejected} spans: ${reason}`) };
}

const shortened = (reason: string): string => reason.slice(0, REASON_CHARS_MAX).toWellFormed();

/** Why the collector did not take the spans; undefined if it did. */
function reasonOf(answer: HttpAnswer): string | undefined {
  if ('refused' in answer) return answer.refused;
  if ('late' in answer) return answer.late;
  if ('failed' in answer) return answer.failed;
  return answer.status >= 200 && answer.status < 300 ? undefined : `it answered with status ${answer.status}`;
}
