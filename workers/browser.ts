/**
 * Entry of a browser host: starts one Chromium, opens one page in it, and answers on fd 3. Only this process reads what the
 * browser says; the gateway gets our frames. If compromised, it can lie only about its own page.
 */
import { Socket } from 'node:net';
import { ToolError } from '../src/base/errors.ts';
import type { Limits } from '../src/base/limits.ts';
import { systemPowers } from '../src/base/powers.ts';
import {
  type FromHost,
  type HostSetup,
  type Job,
  type JobResult,
  type ToHost,
  UP,
  UP_FRAME_BYTES,
} from '../src/hosts/job.ts';
import type { BrowserSetup, VisitJob } from '../src/services/browser/messages.ts';
import { decode } from '../src/wire/protocol/codec.ts';
import { FrameReader, toFrame } from '../src/wire/protocol/frame.ts';
import { type StartedChromium, startChromium } from './browser/chromium.ts';
import { BrowserEnded } from './browser/devtools.ts';
import { measuredUse, overUse } from './browser/usage.ts';
import { visit } from './browser/visit.ts';
import { establishPerimeter } from './perimeter.ts';
import { yieldToOthers } from './priority.ts';

const GATEWAY_FD = 3;
establishPerimeter(GATEWAY_FD);
// The browser inherits the priority.
yieldToOthers();

const powers = systemPowers();
const gateway = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });
/** Rejects when the browser has used more than it may. */
const overused = Promise.withResolvers<never>();
overused.promise.catch(() => {}); // Avoids an unhandled rejection before there is a job.
let limits: Limits | undefined;
let chromium: StartedChromium | undefined;
/** The end of what Chromium wrote to its standard error: why it did not start. */
let complaint = '';

const COMPLAINT_CHARS = 2_000;

function send(message: FromHost): void {
  gateway.write(toFrame(message, (limits as Limits).frameBytesMax));
}

function begin(setup: HostSetup): void {
  limits = setup.limits;
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
  send({ ready: true });
}

async function run(job: Job): Promise<void> {
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
  send({ done: { id: job.id, result } });
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
  else if ('run' in message) void run(message.run);
}

/** Bounds until the setup arrives; the gateway bounds the frames that it sends. */
const BEFORE_SETUP = { messageDepthMax: 64, messageElementsMax: 1_000_000 };
const reader = new FrameReader(2 ** 32 - 1);
gateway.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) receive(decode(payload, limits ?? BEFORE_SETUP) as ToHost);
});
// The gateway is gone, so this process has nothing left to do.
gateway.on('close', () => process.exit(0));
gateway.on('error', () => process.exit(0));
gateway.write(toFrame(UP, UP_FRAME_BYTES));
