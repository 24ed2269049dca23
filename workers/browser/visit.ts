/** Opens one page in a browser, waits until it can be shown, and gives what is wanted of it. */

import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { type Powers, settlesWithin } from '../../src/base/powers.ts';
import { isRecord } from '../../src/base/text/values.ts';
import {
  NOTE_CHARS_MAX,
  TITLE_CHARS_MAX,
  URL_CHARS_MAX,
  type VisitJob,
} from '../../src/services/web/browser/messages.ts';
import type { VisitedPage } from '../../src/services/web/browser/visited-page.ts';
import type { DevTools } from './devtools.ts';
import { htmlOfPage } from './html-of-page.ts';
import { PageEvents } from './page-events.ts';

export interface VisitParts {
  readonly devtools: DevTools;
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'after' | 'monotonicMs'>;
}

/** Time kept of a visit for showing the page when it has not loaded in time. */
const SHOW_MS = 5_000;
/** Size of the browser's own window, whatever a page is shown in: Chromium draws none in a window that is too small. */
const WINDOW = { width: 1280, height: 800 };
const LOOK_EVERY_MS = 100;
const JPEG_QUALITY = 80;

/** Runs a visit. Throws UPSTREAM_FAILED, TIMEOUT, HOST_CRASHED, NOT_FOUND, OUTPUT_LIMIT. */
export async function visit(job: VisitJob, parts: VisitParts): Promise<VisitedPage> {
  const visited = new Visit(job, parts);
  const { powers } = parts;
  const late = Promise.withResolvers<never>();
  const timer = powers.after(job.withinMs, () =>
    late.reject(
      new ToolError('TIMEOUT', `the page could not be shown within ${job.withinMs} ms`, {
        suggestion: 'A script of the page may keep it busy, or its server may not answer.',
      }),
    ),
  );
  try {
    return await Promise.race([visited.run(), late.promise]);
  } finally {
    timer.cancel();
  }
}

class Visit {
  readonly #job: VisitJob;
  readonly #parts: VisitParts;
  readonly #events: PageEvents;
  readonly #startedMs: number;
  readonly #notes: string[] = [];
  #session = '';
  #target = '';
  #popUps = 0;

  constructor(job: VisitJob, parts: VisitParts) {
    this.#job = job;
    this.#parts = parts;
    this.#events = new PageEvents(parts.limits);
    this.#startedMs = parts.powers.monotonicMs();
  }

  async run(): Promise<VisitedPage> {
    await this.#open();
    await this.#navigate();
    await this.#wait();
    const { show } = this.#job;
    const shown = show === 'html' ? await this.#html() : { image: await this.#image(show), isCut: false };
    const { targetInfo } = await this.#parts.devtools.send('Target.getTargetInfo', { targetId: this.#target });
    const { title, url } = isRecord(targetInfo) ? targetInfo : {};
    this.#assertShown();
    if (this.#popUps > 0) this.#notes.push(`${this.#popUps} pop-up windows were closed`);
    const { status, contentType, console } = this.#events;
    return {
      status,
      finalUrl: String(url).slice(0, URL_CHARS_MAX),
      title: String(title).slice(0, TITLE_CHARS_MAX).toWellFormed(),
      contentType,
      notes: this.#notes,
      console,
      ...shown,
    };
  }

  #send(method: string, params: object = {}) {
    return this.#parts.devtools.send(method, params, this.#session);
  }

  /** Opens an empty page, and has the browser tell what happens in it. */
  async #open(): Promise<void> {
    const { devtools } = this.#parts;
    const { width, height } = this.#job;
    devtools.onEvent = (event) => {
      if (event.method === 'Target.targetCreated') this.#closePopUp(event.params.targetInfo);
      if (event.sessionId !== this.#session) return;
      this.#events.take(event);
      // A dialog would hold the page up for ever. Rejects if it is closed already.
      if (event.method === 'Page.javascriptDialogOpening')
        void this.#send('Page.handleJavaScriptDialog', { accept: false }).catch(() => {});
    };
    const { targetId } = await devtools.send('Target.createTarget', { url: 'about:blank', ...WINDOW });
    this.#target = String(targetId);
    const { sessionId } = await devtools.send('Target.attachToTarget', { targetId, flatten: true });
    this.#session = String(sessionId);
    await Promise.all([
      devtools.send('Browser.setDownloadBehavior', { behavior: 'deny' }),
      devtools.send('Target.setDiscoverTargets', { discover: true }),
      ...['Page.enable', 'Network.enable', 'Runtime.enable', 'Inspector.enable'].map((it) => this.#send(it)),
      this.#send('Page.setLifecycleEventsEnabled', { enabled: true }),
      // Chromium draws no page that is in the background, and a picture of it would never come.
      this.#send('Page.bringToFront'),
      this.#send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false }),
    ]);
  }

  #closePopUp(target: unknown): void {
    if (!isRecord(target) || target.type !== 'page' || this.#target === '' || target.targetId === this.#target) return;
    this.#popUps += 1;
    const { targetId } = target;
    // Rejects if it is closed already.
    void this.#parts.devtools.send('Target.closeTarget', { targetId }).catch(() => {});
  }

  async #navigate(): Promise<void> {
    const { url } = this.#job;
    const { frameTree } = await this.#send('Page.getFrameTree');
    const { frame } = isRecord(frameTree) ? frameTree : {};
    this.#events.frame = isRecord(frame) ? String(frame.id) : '';
    const { errorText, isDownload } = await this.#send('Page.navigate', { url });
    if (isDownload === true)
      throw new ToolError('UNSUPPORTED', `${url.slice(0, 200)} is a download and no page`, {
        suggestion: 'Use web_fetch without rendering, or http_request.',
      });
    if (typeof errorText === 'string') throw this.#unreachable(this.#events.failed?.url ?? url, errorText);
  }

  /** Waits until the page can be shown, or for as long as it may take. */
  async #wait(): Promise<void> {
    const { powers, limits } = this.#parts;
    const { waitFor, waitMs, withinMs } = this.#job;
    const nowMs = powers.monotonicMs();
    const restOfVisitMs = withinMs - SHOW_MS - (nowMs - this.#startedMs);
    const loadMs = Math.max(1, Math.min(limits.browserLoadMs, Math.round(restOfVisitMs)));
    const untilMs = nowMs + loadMs;
    const isLoaded = await this.#until(() => this.#events.has('load'), untilMs);
    if (!isLoaded) this.#notes.push(`the page had not loaded after ${loadMs} ms`);
    else if (waitFor === 'idle') {
      const isIdle = await this.#until(() => this.#events.has('networkIdle'), untilMs);
      if (!isIdle) this.#notes.push(`the page still made requests after ${loadMs} ms`);
    }
    if (typeof waitFor === 'object') await this.#waitForElement(waitFor.selector, untilMs);
    const restMs = withinMs - SHOW_MS - (powers.monotonicMs() - this.#startedMs);
    await this.#pause(Math.max(0, Math.min(waitMs, restMs)));
  }

  /** Whether the condition came true in time. */
  async #until(isTrue: () => boolean, untilMs: number): Promise<boolean> {
    const { powers } = this.#parts;
    for (;;) {
      this.#assertShown();
      if (isTrue()) return true;
      const restMs = untilMs - powers.monotonicMs();
      if (restMs <= 0) return false;
      await settlesWithin(this.#events.changed, restMs, powers);
    }
  }

  /** Throws NOT_FOUND if no element matches in time, INPUT_INVALID for a selector that the browser can't read. */
  async #waitForElement(selector: string, untilMs: number): Promise<void> {
    const expression = `document.querySelector(${JSON.stringify(selector)}) !== null`;
    for (;;) {
      if ((await this.#evaluate(expression, 'the selector can not be read')) === true) return;
      if (this.#parts.powers.monotonicMs() > untilMs)
        throw new ToolError('NOT_FOUND', `no element matches \`${selector.slice(0, 100)}\` in the page`, {
          suggestion: 'Open the page without waiting for an element to see what is in it.',
        });
      await this.#pause(LOOK_EVERY_MS);
    }
  }

  /** The value of an expression that the page's own scripts can't see. Throws INPUT_INVALID. */
  async #evaluate(expression: string, problem: string): Promise<unknown> {
    const { frameTree } = await this.#send('Page.getFrameTree');
    const { frame } = isRecord(frameTree) ? frameTree : {};
    const frameId = isRecord(frame) ? frame.id : undefined;
    const { executionContextId: contextId } = await this.#send('Page.createIsolatedWorld', { frameId });
    const answer = await this.#send('Runtime.evaluate', { expression, contextId, returnByValue: true });
    if (answer.exceptionDetails !== undefined) throw new ToolError('INPUT_INVALID', problem);
    return isRecord(answer.result) ? answer.result.value : undefined;
  }

  async #html(): Promise<Pick<VisitedPage, 'html' | 'isCut'>> {
    const { pageBytesMax } = this.#parts.limits;
    const text = await this.#evaluate(htmlOfPage(pageBytesMax), 'the page can not be read');
    const bytes = Buffer.from(`<!doctype html>${String(text)}`);
    return { html: bytes.subarray(0, pageBytesMax), isCut: bytes.length > pageBytesMax };
  }

  async #image({ format, fullPage }: Exclude<VisitJob['show'], 'html'>): Promise<VisitedPage['image']> {
    const { screenshotBytesMax } = this.#parts.limits;
    const size = fullPage ? await this.#fullSize() : { width: this.#job.width, height: this.#job.height };
    const bytes = await this.#captured(format, size);
    if (bytes.length <= screenshotBytesMax) return { format, ...size, bytes };
    const smaller = format === 'png' ? await this.#captured('jpeg', size) : bytes;
    if (smaller.length > screenshotBytesMax)
      throw new ToolError(
        'OUTPUT_LIMIT',
        `the picture has ${smaller.length} bytes; at most ${screenshotBytesMax} are returned`,
        {
          suggestion: 'Ask for a smaller window, or without fullPage.',
        },
      );
    this.#notes.push(`the picture is a JPEG: as PNG it would have ${bytes.length} bytes`);
    return { format: 'jpeg', ...size, bytes: smaller };
  }

  async #captured(format: 'png' | 'jpeg', { width, height }: { width: number; height: number }): Promise<Buffer> {
    const { data } = await this.#send('Page.captureScreenshot', {
      format,
      ...(format === 'jpeg' && { quality: JPEG_QUALITY }),
      ...(height > this.#job.height && { captureBeyondViewport: true }),
      clip: { x: 0, y: 0, width, height, scale: 1 },
    });
    return Buffer.from(String(data), 'base64');
  }

  /** The size of the whole page, as far as it is shown. */
  async #fullSize(): Promise<{ width: number; height: number }> {
    const { screenshotHeightMax } = this.#parts.limits;
    const { width, height: windowHeight } = this.#job;
    const { cssContentSize } = await this.#send('Page.getLayoutMetrics');
    const whole = isRecord(cssContentSize) ? Math.ceil(Number(cssContentSize.height)) : windowHeight;
    if (whole > screenshotHeightMax)
      this.#notes.push(`the picture shows the first ${screenshotHeightMax} of ${whole} pixels of the page`);
    return { width, height: Math.min(Math.max(whole, windowHeight), screenshotHeightMax) };
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#parts.powers.after(ms, resolve));
  }

  /** Throws if there is no page to show any more. */
  #assertShown(): void {
    const { hasCrashed, failed } = this.#events;
    if (hasCrashed)
      throw new ToolError('HOST_CRASHED', 'the process that showed the page ended', {
        suggestion: 'The page may need more memory than a browser gets here.',
      });
    if (failed) throw this.#unreachable(failed.url, failed.why);
  }

  #unreachable(url: string, why: string): ToolError {
    const shown = `${url.slice(0, 200)} could not be shown: ${why}`.slice(0, NOTE_CHARS_MAX).toWellFormed();
    return new ToolError('UPSTREAM_FAILED', shown, { details: { url: url.slice(0, URL_CHARS_MAX) } });
  }
}
