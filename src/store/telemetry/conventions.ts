/** Durations by the semantic conventions of OpenTelemetry for GenAI and MCP, with their names as Prometheus writes them. */
import type { Family } from './families.ts';
import { Histogram } from './histogram.ts';

/** The buckets that the conventions recommend, in seconds. */
const TOOL_BUCKETS: readonly number[] = [
  ...[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64],
  ...[1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
];
const MCP_BUCKETS: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** The error type of results with `isError`, and of all failed calls of tools: one value, so that labels stay few. */
export const TOOL_ERROR = 'tool_error';

/** Durations of one kind of work, by whether it failed and how. */
class Durations {
  readonly #bounds: readonly number[];
  readonly #byError = new Map<string | undefined, Histogram>();

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  observe(durationMs: number, error: string | undefined): void {
    const histogram = this.#byError.get(error) ?? new Histogram(this.#bounds);
    this.#byError.set(error, histogram);
    histogram.observe(durationMs / 1000);
  }

  samples(labels: Record<string, string>) {
    return [...this.#byError].flatMap(([error, it]) =>
      it.samples(error === undefined ? labels : { ...labels, error_type: error }),
    );
  }
}

/** Durations of one tool's calls. */
export class ToolDurations {
  readonly #durations = new Durations(TOOL_BUCKETS);

  observe(durationMs: number, isFailed: boolean): void {
    this.#durations.observe(durationMs, isFailed ? TOOL_ERROR : undefined);
  }

  static family(tools: Iterable<readonly [name: string, durations: ToolDurations]>): Family {
    return {
      name: 'gen_ai_execute_tool_duration_seconds',
      type: 'histogram',
      help: 'Time from arrival to result, by the conventions for GenAI.',
      samples: [...tools].flatMap(([name, it]) =>
        it.#durations.samples({ gen_ai_operation_name: 'execute_tool', gen_ai_tool_name: name }),
      ),
    };
  }
}

/** A request of an MCP client that ended. */
export interface EndedRequest {
  /** One of the methods that are served. */
  readonly method: string;
  readonly durationMs: number;
  /** `TOOL_ERROR`, or the code of a JSON-RPC error. */
  readonly error: string | undefined;
}

/** Durations of the requests of MCP clients. */
export class McpMetrics {
  readonly #methods = new Map<string, Durations>();

  ended({ method, durationMs, error }: EndedRequest): void {
    const durations = this.#methods.get(method) ?? new Durations(MCP_BUCKETS);
    this.#methods.set(method, durations);
    durations.observe(durationMs, error);
  }

  families(): Family[] {
    const samples = [...this.#methods].flatMap(([method, it]) => it.samples({ mcp_method_name: method }));
    const help = 'Time from the arrival of an MCP request to its answer, by the conventions for MCP.';
    return [{ name: 'mcp_server_operation_duration_seconds', type: 'histogram', help, samples }];
  }
}
