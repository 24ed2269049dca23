/** Keeps the results of a batch: those that its answer can hold, and those that references of later calls need. */
import type { ToolResult } from '../../base/call.ts';
import type { Limits } from '../../base/limits.ts';
import { measure } from '../message-size.ts';

/** The results of the batch's answer. A result that does not fit into one message loses its data and gets a warning that says so. */
export class BatchAnswer {
  readonly #results = new Map<string, ToolResult>();
  readonly #limits: Limits;
  #bytes = 0;
  #elements = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#results.size;
  }

  /** The result of a call that has ended. */
  get(id: string): ToolResult {
    return this.#results.get(id) as ToolResult;
  }

  /** Adds a result; returns it as the answer will hold it. */
  put(id: string, result: ToolResult): ToolResult {
    const size = measure(result);
    const { batchResultBytesMax, messageElementsMax } = this.#limits;
    const fits =
      this.#bytes + size.bytes <= batchResultBytesMax && this.#elements + size.elements <= messageElementsMax * SHARE;
    const resultToKeep = fits || !result.success ? result : withoutData(result, size.bytes);
    const { bytes, elements } = resultToKeep === result ? size : measure(resultToKeep);
    this.#bytes += bytes;
    this.#elements += elements;
    this.#results.set(id, resultToKeep);
    return resultToKeep;
  }
}

/** The share of a message's elements that results may take; the rest is for the message around them. */
const SHARE = 0.9;

function withoutData(result: ToolResult & { success: true }, bytesTotal: number): ToolResult {
  const { metadata, callId } = result;
  const warning = `The data is left out, since the answer of the batch is full: calls.get ${callId} has it for a while.`;
  return {
    ...result,
    data: null,
    metadata: {
      ...metadata,
      truncated: { ...metadata.truncated, bytesTotal },
      warnings: [...(metadata.warnings ?? []), warning],
    },
  };
}

/** Whole results that later calls refer to; each is dropped after the last call that needs it. */
export class HeldResults {
  readonly #results = new Map<string, { readonly result: ToolResult; readonly bytes: number }>();
  /** Maps a call id to how many calls need its result and have not ended. */
  readonly #wanted = new Map<string, number>();
  readonly #limits: Limits;
  readonly #needs: ReadonlyMap<string, ReadonlySet<string>>;
  #bytes = 0;

  constructor(needs: ReadonlyMap<string, ReadonlySet<string>>, limits: Limits) {
    this.#needs = needs;
    this.#limits = limits;
    for (const neededIds of needs.values())
      for (const id of neededIds) this.#wanted.set(id, (this.#wanted.get(id) ?? 0) + 1);
  }

  get(id: string): ToolResult | undefined {
    return this.#results.get(id)?.result;
  }

  /** Adds the result of a call, and releases the results that this call needed. */
  put(id: string, result: ToolResult): void {
    for (const other of this.#needs.get(id) ?? []) this.#done(other);
    if (!this.#wanted.has(id) || !result.success) return;
    const { bytes } = measure(result);
    if (this.#bytes + bytes > this.#limits.batchHeldBytesMax) return;
    this.#bytes += bytes;
    this.#results.set(id, { result, bytes });
  }

  #done(id: string): void {
    const left = (this.#wanted.get(id) as number) - 1;
    this.#wanted.set(id, left);
    if (left > 0) return;
    this.#bytes -= this.#results.get(id)?.bytes ?? 0;
    this.#results.delete(id);
  }
}
