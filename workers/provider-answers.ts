/** What a provider's server sends as messages of the protocol. An answer that is none fails its request at once; nobody would wait for it in vain. */
import { type JSONRPCMessage, parseJSONRPCMessage } from '@modelcontextprotocol/client';
import type { Limits } from '../src/limits.ts';
import { parseJson } from '../src/parse-json.ts';

type Id = string | number;

/** "Invalid Request" of JSON-RPC, here said of an answer. */
const MALFORMED = -32_600;

export class Answers {
  /** Of requests that were sent and not answered. */
  readonly #awaited = new Set<Id>();
  readonly #max: number;

  constructor({ providerAwaitedMax }: Pick<Limits, 'providerAwaitedMax'>) {
    this.#max = providerAwaitedMax;
  }

  /** Notes what is sent: who asks waits for an answer, who cancels does so no longer. */
  sent(message: JSONRPCMessage | JSONRPCMessage[]): void {
    for (const it of [message].flat()) {
      if (!('method' in it)) continue;
      if ('id' in it) this.#await(it.id);
      else if (it.method === 'notifications/cancelled') this.#awaited.delete(it.params?.requestId as Id);
    }
  }

  /**
   * The message that a text holds. Of an answer that is malformed, an error in its place, one for each request that it names; of
   * everything else that is no message, nothing: many servers greet, or log, on their output.
   */
  messagesIn(text: string): JSONRPCMessage[] {
    const message = this.#messageIn(text);
    return message ? [message] : this.#errorsFor(text);
  }

  /** The errors in the place of an answer that is malformed; nothing for a text that holds a message, which is somebody else's. */
  errorsIn(text: string): JSONRPCMessage[] {
    // Notifications, of which a server may send thousands in a second, have none.
    if (!text.includes('"id"')) return [];
    return this.#messageIn(text) ? [] : this.#errorsFor(text);
  }

  #messageIn(text: string): JSONRPCMessage | undefined {
    try {
      const message = parseJSONRPCMessage(parseJson(text));
      if (!('method' in message)) this.#awaited.delete(message.id as Id);
      return message;
    } catch {
      return undefined;
    }
  }

  #errorsFor(text: string): JSONRPCMessage[] {
    return this.#answeredBy(text).map((id) => {
      this.#awaited.delete(id);
      return { jsonrpc: '2.0', id, error: { code: MALFORMED, message: 'its answer is no message of the protocol' } };
    });
  }

  #await(id: Id): void {
    this.#awaited.add(id);
    // Older ones were answered where this class does not see it, or given up.
    if (this.#awaited.size > this.#max) this.#awaited.delete(this.#awaited.values().next().value as Id);
  }

  /** Requests that wait for an answer, and that this text meant to answer. */
  #answeredBy(text: string): Id[] {
    return idsIn(text).filter((it) => this.#awaited.has(it));
  }
}

/** Ids of what looks like an answer. A record of a log may hold an `id`, too, but neither a result nor the protocol's name. */
function idsIn(text: string): Id[] {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    // Cut short, or with something in it that JSON does not take: the id is found where servers write it, first or last.
    const [, first, last] = BROKEN.exec(text) ?? [];
    return [first, last].filter((it) => it !== undefined).map(Number);
  }
  return [value].flat().flatMap((it: unknown): Id[] => {
    if (typeof it !== 'object' || it === null || !('id' in it)) return [];
    const isAnswer = 'jsonrpc' in it || 'result' in it || 'error' in it;
    return isAnswer && (typeof it.id === 'number' || typeof it.id === 'string') ? [it.id] : [];
  });
}

/** The client numbers its requests. */
const BROKEN =
  /^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,|"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*\}\s*$/;
