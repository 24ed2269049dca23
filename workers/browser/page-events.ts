/** What the browser told of the page so far: how far it has come, and what it wrote to its console. */

import type { Limits } from '../../src/base/limits.ts';
import { isRecord } from '../../src/base/text/values.ts';
import { NOTE_CHARS_MAX } from '../../src/services/web/browser/messages.ts';
import type { DevToolsEvent } from './devtools.ts';

export class PageEvents {
  /** Status of the newest document, and its type; 0 before there is one. */
  status = 0;
  contentType: string | undefined;
  /** Address that the newest document can't be had from, and why. */
  failed: { readonly url: string; readonly why: string } | undefined;
  /** Whether the process that shows the page has ended. */
  hasCrashed = false;
  readonly console: string[] = [];
  readonly #limits: Limits;
  readonly #reached = new Set<string>();
  /** The frame of the page itself; its other frames are of no interest. */
  #frame: string | undefined;
  #changed = Promise.withResolvers<void>();
  /** Addresses of failed requests for documents, by the request. */
  readonly #documents = new Map<string, string>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Resolves when something happened. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  set frame(id: string) {
    this.#frame = id;
  }

  /** Whether the newest document has come as far as `load` or `networkIdle`. */
  has(step: string): boolean {
    return this.#reached.has(step);
  }

  take({ method, params }: DevToolsEvent): void {
    this.#note(method, params);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  #note(method: string, params: DevToolsEvent['params']): void {
    const isOurs = params.frameId === this.#frame;
    switch (method) {
      case 'Page.lifecycleEvent':
        if (!isOurs) return;
        if (params.name === 'init') this.#reached.clear();
        this.#reached.add(String(params.name));
        return;
      case 'Page.frameRequestedNavigation':
        if (isOurs && params.disposition === 'currentTab') this.#reached.clear();
        return;
      case 'Page.frameNavigated':
        return this.#navigated(params.frame);
      case 'Network.requestWillBeSent':
        if (isOurs && params.type === 'Document') this.#documents.set(String(params.requestId), urlOf(params.request));
        return;
      case 'Network.responseReceived':
        if (isOurs && params.type === 'Document') this.#responded(params.response);
        return;
      case 'Network.loadingFailed': {
        const url = this.#documents.get(String(params.requestId));
        if (url !== undefined) this.failed = { url, why: String(params.errorText) };
        return;
      }
      case 'Inspector.targetCrashed':
        this.hasCrashed = true;
        return;
      case 'Runtime.consoleAPICalled':
        return this.#log(Array.isArray(params.args) ? params.args.map(shown).join(' ') : '');
      case 'Runtime.exceptionThrown':
        return this.#log(exceptionOf(params.exceptionDetails));
      case 'Page.javascriptDialogOpening':
        return this.#log(`[${String(params.type)}] ${String(params.message)}`);
      default:
    }
  }

  #navigated(frame: unknown): void {
    if (!isRecord(frame) || frame.parentId !== undefined) return;
    if (typeof frame.unreachableUrl === 'string') this.failed ??= { url: frame.unreachableUrl, why: 'it gave no page' };
    else this.failed = undefined;
  }

  #responded(response: unknown): void {
    if (!isRecord(response)) return;
    this.status = Number(response.status);
    this.contentType = typeof response.mimeType === 'string' ? response.mimeType : undefined;
  }

  #log(text: string): void {
    const { browserConsoleMax, browserConsoleChars } = this.#limits;
    if (this.console.length < browserConsoleMax)
      this.console.push(text.slice(0, Math.min(browserConsoleChars, NOTE_CHARS_MAX)).toWellFormed());
  }
}

const urlOf = (request: unknown): string => (isRecord(request) ? String(request.url) : '');

/** A value as the console shows it. */
function shown(value: unknown): string {
  if (!isRecord(value)) return '';
  return String(value.value ?? value.description ?? value.type);
}

function exceptionOf(details: unknown): string {
  if (!isRecord(details)) return 'exception';
  const { exception, text } = details;
  const { description } = isRecord(exception) ? exception : {};
  return typeof description === 'string' ? description : String(text);
}
