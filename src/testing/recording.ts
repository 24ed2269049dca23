/** Calls that are recorded against a daemon once, and answered from the recording in tests of what makes them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { inspect, isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import type { ToolResult } from '../base/call.ts';
import { parseJson } from '../base/text/json.ts';

/** What agents need of a client: `Client`, `TestDaemon`, a recorder and a replayer all are one. */
export interface ToolCaller {
  call(tool: string, input: object): Promise<ToolResult>;
}

export interface RecordedCall {
  readonly tool: string;
  readonly input: object;
  readonly result: ToolResult;
}

const recordingSchema = z.strictObject({
  version: z.literal(1),
  calls: z.array(z.strictObject({ tool: z.string(), input: z.looseObject({}), result: z.looseObject({}) })),
});

/** Passes calls on, and keeps them with their results. */
export class Recorder implements ToolCaller {
  /** In the order in which they were made. */
  readonly calls: RecordedCall[] = [];
  readonly #caller: ToolCaller;

  constructor(caller: ToolCaller) {
    this.#caller = caller;
  }

  async call(tool: string, input: object = {}): Promise<ToolResult> {
    const at = this.calls.length;
    // Takes its place now: calls that run beside each other may end in any order.
    this.calls.push({ tool, input, result: undefined as never });
    const result = await this.#caller.call(tool, input);
    this.calls[at] = { tool, input, result };
    return result;
  }

  /** Writes the calls that ended to a file for `Replayer`. */
  save(path: string): void {
    const calls = this.calls.filter((it) => it.result !== undefined);
    writeFileSync(path, `${JSON.stringify({ version: 1, calls }, undefined, 2)}\n`);
  }
}

/** Answers calls from a recording, each once; a call that is not in it throws. */
export class Replayer implements ToolCaller {
  /** Calls that were not made yet. */
  readonly unused: RecordedCall[];

  /** `from` is the path of a recording, or its calls. */
  constructor(from: string | readonly RecordedCall[]) {
    this.unused = typeof from === 'string' ? readRecording(from) : [...from];
  }

  async call(tool: string, input: object = {}): Promise<ToolResult> {
    // JSON drops undefined members, as the file did.
    const given: unknown = parseJson(JSON.stringify(input));
    const at = this.unused.findIndex((it) => it.tool === tool && isDeepStrictEqual(it.input, given));
    const [found] = at < 0 ? [] : this.unused.splice(at, 1);
    if (found) return found.result;
    const near = this.unused.filter((it) => it.tool === tool).map((it) => shown(it.input));
    const hint = near.length === 0 ? `no call of ${tool} is left` : `left of ${tool}: ${near.join('; ')}`;
    throw new Error(`the recording has no call of ${tool} with ${shown(input)}; ${hint}`);
  }

  /** Throws if recorded calls were not made. */
  assertAllUsed(): void {
    if (this.unused.length === 0) return;
    const left = this.unused.map((it) => `${it.tool} ${shown(it.input)}`);
    throw new Error(`${left.length} recorded calls were not made: ${left.join('; ')}`);
  }
}

const shown = (input: object): string => inspect(input, { breakLength: 120 }).slice(0, 400);

function readRecording(path: string): RecordedCall[] {
  const parsed = recordingSchema.safeParse(parseJson(readFileSync(path, 'utf8')));
  if (!parsed.success) throw new Error(`${path} is no recording of calls: ${z.prettifyError(parsed.error)}`);
  return parsed.data.calls as unknown as RecordedCall[];
}
