/**
 * Entry of a browser host: starts one Chromium, opens one page in it, and answers on fd 3. Only this process reads what the
 * browser says; the gateway gets our frames. If compromised, it can lie only about its own page.
 */

import { ToolError } from '../src/base/errors.ts';
import type { Limits } from '../src/base/limits.ts';
import { systemPowers } from '../src/base/powers.ts';
import type { FromHost, HostSetup, Job, JobResult, ToHost, ToolJob } from '../src/hosts/job.ts';
import type { BrowserSetup, VisitJob } from '../src/services/web/browser/messages.ts';
import { type StartedChromium, startChromium } from './browser/chromium.ts';
import { BrowserEnded } from './browser/devtools.ts';
import { measuredUse, overUse } from './browser/usage.ts';
import { visit } from './browser/visit.ts';
import { GATEWAY_FD, GatewayLine } from './gateway-line.ts';
import { establishPerimeter } from './perimeter.ts';
import { yieldToOthers } from './priority.ts';

establishPerimeter(GATEWAY_FD);
// The browser inherits the priority.
yieldToOthers();

const powers = systemPowers();
const gateway = new GatewayLine<ToHost, FromHost>(receive);
/** Rejects when the browser has used more than it may. */
const overused = Promise.withResolvers<never>();
overused.promise.catch(() => {}); // Avoids an unhandled rejection before there is a job.
let limits: Limits | undefined;
let chromium: StartedChromium | undefined;
/** The end of what Chromium wrote to its standard error: why it did not start. */
let complaint = '';

const COMPLAINT_CHARS = 2_000;

function begin(setup: HostSetup): void {
  limits = setup.limits;
  gateway.limits = limits;
  chromium = startChromium(setup.browser as BrowserSetup, limits, (text) => {
    complaint = `${complaint}${text}`.slice(-COMPLAINT_CHARS);
  });
  const watch = powers.every(limits.browserLookMs, () => {
    const error = overUse(measuredUse(), limits as Limits);
    if (!error) return;
    watch.cancel();
    chromium?.process.kill('SIGKILL');
    overused.reject(error);
  });
  gateway.send({ ready: true });
}

async function run(job: Job<ToolJob>): Promise<void> {
  let result: JobResult;
  try {
    const { devtools } = chromium as StartedChromium;
    const shown = visit(job.input as VisitJob, { devtools, limits: limits as Limits, powers });
    shown.catch(() => {}); // Reported below, unless the browser used too much.
    const data = await Promise.race([shown, overused.promise]);
    const outputBytes = (data.html?.length ?? 0) + (data.image?.bytes.length ?? 0);
    result = { ok: true, data, usage: usageOf(outputBytes) };
  } catch (thrown) {
    result = { ok: false, error: errorOf(thrown).toWire(), usage: usageOf(0) };
  }
  gateway.send({ done: { id: job.id, result } });
}

/** The error for the caller. */
function errorOf(thrown: unknown): ToolError {
  if (thrown instanceof ToolError) return thrown;
  const { message } = thrown as Error;
  if (!(thrown instanceof BrowserEnded))
    return new ToolError('UPSTREAM_FAILED', `the page could not be shown: ${message}`);
  if (chromium?.devtools.hasAnswered)
    return new ToolError('HOST_CRASHED', `the browser that showed the page is gone: ${message}`);
  const lines = complaint.trim().split('\n');
  const why = lines.find((it) => /sandbox|FATAL|error while loading/i.test(it)) ?? lines.at(-1) ?? '';
  const said = `Chromium can't be started: ${message}${why === '' ? '' : ` (${why.slice(0, 300)})`}`;
  return new ToolError('SANDBOX_UNAVAILABLE', said.toWellFormed(), {
    suggestion: 'Chromium needs user namespaces for its own sandbox: /proc/sys/user/max_user_namespaces must not be 0.',
  });
}

const usageOf = (outputBytes: number): JobResult['usage'] => ({
  cpuMs: Math.round(measuredUse().cpuMs),
  outputBytes,
  verdict: 'ok',
  enforcedBy: 'browser host',
});

function receive(message: ToHost): void {
  if ('setup' in message) begin(message.setup);
  else if ('run' in message && 'tool' in message.run) void run(message.run);
}

gateway.sayUp();
