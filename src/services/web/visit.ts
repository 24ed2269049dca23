/**
 * Runs a call that opens a page in a browser. The lists of the policy hold for each connection of the page, its rules for
 * the page itself and for where it leads.
 */

import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { safeText } from '../../base/text/shown-text.ts';
import { timeLimitOf } from '../../pipeline/execute/bounds.ts';
import { failed, type Outcome, type RunHooks, succeeded } from '../../pipeline/outcome.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import { parseAddress } from '../../policy/address.ts';
import { refusedAddress } from '../../policy/network.ts';
import type { EgressReport } from '../../sandbox/egress/proxy-messages.ts';
import { destinationOf } from '../../tools/context/requests.ts';
import type { PageVisit } from '../../tools/context/visit.ts';
import { runsBy } from '../../tools/runs.ts';
import type { DaemonParts } from '../capability.ts';
import type { BrowserEnd, Browsers } from './browser/browsers.ts';
import { type VisitedPage, visitedPage } from './browser/visited-page.ts';
import { addressedBy, assertListed, assertRedirect, listedHosts } from './exchanges.ts';
import { unlisted } from './http-exchange.ts';
import { readByTool } from './page.ts';

export type VisitParts = Pick<DaemonParts, 'hosts' | 'doors' | 'limits' | 'powers'> & { readonly browsers: Browsers };

/** Time kept of a call's for the start and the end of its browser, within which the browser itself says what held it up. */
const AROUND_MS = 1_000;

/**
 * Gives the picture, or what the tool made of the page. Throws POLICY_DENIED, PROGRAM_MISSING, SANDBOX_UNAVAILABLE,
 * HOST_CRASHED, and the reason of an abort.
 */
export async function runVisit(
  visit: PageVisit,
  call: ClearedCall,
  { parts, hooks: { attempt, beforeStart } }: { parts: VisitParts; hooks: RunHooks },
): Promise<Outcome> {
  const { browsers, limits, powers } = parts;
  const layers = listedHosts(call);
  assertListed(layers, visit.url);
  const to = addressedBy(visit.url);
  const refusal = parseAddress(to.host) === undefined ? undefined : refusedAddress(layers, { ...to, address: to.host });
  if (refusal) throw unlisted(destinationOf(visit.url), refusal.reason);
  await beforeStart();
  const endsAtMs = powers.monotonicMs() + timeLimitOf(call, limits) - AROUND_MS;
  const { workspace, controller } = call;
  const ended = await browsers.run(
    () => ({ ...visit, withinMs: Math.max(1, Math.round(endsAtMs - powers.monotonicMs())) }),
    {
      workspace,
      layers,
      signal: controller.signal,
      onStarted: () => {
        attempt.started = true;
        call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
      },
    },
  );
  const { result, pid, egress } = ended;
  const connected = egress === 'lost' ? [] : egress.connected;
  const facts = { ...attempt, hostPid: pid, usage: result.usage, connected };
  try {
    const page = pageOf(ended, visit, call, limits);
    if (runsBy(call.checked.tool, 'web')?.read)
      return await readByTool(toFetched(page, powers.now()), call, { parts, facts });
    return succeeded(toPicture(page, egress, powers.now()), facts);
  } catch (error) {
    return failed(error, facts);
  }
}

/** The page, if it may be shown to the caller. Throws POLICY_DENIED, and the error of the browser. */
function pageOf({ result, egress }: BrowserEnd, { url }: PageVisit, call: ClearedCall, limits: Limits): VisitedPage {
  if (!result.ok) {
    const error = ToolError.fromWire(result.error);
    const { url: tried } = error.extras.details ?? {};
    if (typeof tried === 'string') assertNotRefused(egress, tried);
    assertNotRefused(egress, url);
    throw error;
  }
  const parsed = visitedPage(limits).safeParse(result.data);
  if (!parsed.success) throw new ToolError('HOST_CRASHED', 'the browser host sent no page', { cause: parsed.error });
  const page = parsed.data;
  if (!/^https?:$/.test(URL.parse(page.finalUrl)?.protocol ?? ''))
    throw new ToolError('UPSTREAM_FAILED', `the page leads to ${page.finalUrl.slice(0, 100)}, which is no web page`);
  // A refused http:// request is answered by the proxy, whose text the browser would show.
  assertNotRefused(egress, page.finalUrl);
  if (destinationOf(page.finalUrl) !== destinationOf(url)) assertRedirect(call, page.finalUrl);
  return page;
}

/** Throws POLICY_DENIED if the egress proxy refused to connect to the host of the URL. */
function assertNotRefused(egress: EgressReport | 'lost', url: string): void {
  if (egress === 'lost' || !URL.canParse(url)) return;
  const { host, port } = addressedBy(url);
  const targets = [`${host}:${port}`, `[${host}]:${port}`];
  const denied = egress.denied.find(({ target }) => targets.includes(target));
  if (denied) throw unlisted(destinationOf(url), denied.reason);
}

function toFetched({ finalUrl, status, html = new Uint8Array(), isCut }: VisitedPage, nowMs: number) {
  const fetchedAt = new Date(nowMs).toISOString();
  const contentType = 'text/html; charset=utf-8';
  return { url: finalUrl, status, contentType, body: html, isCut, fetchedAt, cached: 'no', isRendered: true } as const;
}

/** The data of a screenshot. */
function toPicture(
  { image, status, finalUrl, title, console, notes }: VisitedPage,
  egress: EgressReport | 'lost',
  nowMs: number,
) {
  if (!image) throw new ToolError('HOST_CRASHED', 'the browser host sent no picture');
  const { format, width, height, bytes } = image;
  return {
    image: Buffer.from(bytes).toString('base64'),
    encoding: 'base64',
    mimeType: `image/${format}`,
    width,
    height,
    status,
    finalUrl,
    title: safeText(title),
    console: console.map(safeText),
    notes,
    blockedRequests: blockedIn(egress),
    fetchedAt: new Date(nowMs).toISOString(),
    trust: 'untrusted',
  };
}

/** Hosts that Chromium asks by itself, whatever its switches say; the proxy lets it if the policy lists them. */
const ASKED_UNASKED = ['accounts.google.com', 'clients2.google.com', 'update.googleapis.com'];

const blockedIn = (egress: EgressReport | 'lost') =>
  (egress === 'lost' ? [] : egress.denied)
    .filter(({ target }) => !ASKED_UNASKED.some((it) => target.startsWith(`${it}:`)))
    .map(({ target, reason, count }) => ({ target, reason, count }));
