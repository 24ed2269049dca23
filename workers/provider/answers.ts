/** Parses the messages of a provider's server. A malformed answer fails its request at once, so that nobody waits for it in vain. */
import { type JSONRPCMessage, parseJSONRPCMessage } from '@modelcontextprotocol/client';
import type { Limits } from '../../src/base/limits.ts';
import { parseJson } from '../../src/base/text/json.ts';

type Id = string | number;

/** JSON-RPC's "Invalid Request", used here for an answer. */
const MALFORMED = -32_600;

export class ResponseFilter {
  /** Ids of requests without an answer. */
  readonly #pendingIds = new Set<Id>();
  readonly #max: number;

  constructor({ providerAwaitedMax }: Pick<Limits, 'providerAwaitedMax'>) {
    this.#max = providerAwaitedMax;
  }

  /** Notes a sent message: a request waits for an answer, a cancellation ends the wait. */
  noteSent(message: JSONRPCMessage | JSONRPCMessage[]): void {
    for (const it of [message].flat()) {
      if (!('method' in it)) continue;
      if ('id' in it) this.#addPending(it.id);
      else if (it.method === 'notifications/cancelled') this.#pendingIds.delete(it.params?.requestId as Id);
    }
  }

  /**
   * The message in a text. A malformed answer gives an error for each request that it names; any other text that is
   * no message gives nothing: many servers print greetings or logs.
   */
  messagesIn(text: string): JSONRPCMessage[] {
    const message = this.#messageIn(text);
    return message ? [message] : this.#errorsFor(text);
  }

  /** The errors that replace a malformed answer; empty for a text that holds a message, which another reader handles. */
  errorsIn(text: string): JSONRPCMessage[] {
    // A fast path for notifications, which have no id; a server may send thousands a second.
    if (!text.includes('"id"')) return [];
    return this.#messageIn(text) ? [] : this.#errorsFor(text);
  }

  #messageIn(text: string): JSONRPCMessage | undefined {
    try {
      const message = parseJSONRPCMessage(parseJson(text));
      if (!('method' in message)) this.#pendingIds.delete(message.id as Id);
      return message;
    } catch {
      return undefined;
    }
  }

  #errorsFor(text: string): JSONRPCMessage[] {
    return this.#answeredBy(text).map((id) => {
      this.#pendingIds.delete(id);
      return { jsonrpc: '2.0', id, error: { code: MALFORMED, message: 'its answer is no message of the protocol' } };
    });
  }

  #addPending(id: Id): void {
    this.#pendingIds.add(id);
    // The oldest was answered elsewhere or given up.
    if (this.#pendingIds.size > this.#max) this.#pendingIds.delete(this.#pendingIds.values().next().value as Id);
  }

  /** The waiting requests that this text tries to answer. */
  #answeredBy(text: string): Id[] {
    return idsIn(text).filter((it) => this.#pendingIds.has(it));
  }
}

/** Ids in a text that looks like an answer. A log record may have an `id`, but no result and no `jsonrpc`. */
function idsIn(text: string): Id[] {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    // Cut or invalid JSON: looks for the id where servers write it, first or last.
    const [, first, last] = BROKEN.exec(text) ?? [];
    return [first, last].filter((it) => it !== undefined).map(Number);
  }
  return [value].flat().flatMap((it: unknown): Id[] => {
    if (typeof it !== 'object' || it === null || !('id' in it)) return [];
    const isAnswer = 'jsonrpc' in it || 'result' in it || 'error' in it;
    return isAnswer && (typeof it.id === 'number' || typeof it.id === 'string') ? [it.id] : [];
  });
}

/** Matches the numeric id of the client's requests. */
const BROKEN =
  /^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,|"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*\}\s*$/;
