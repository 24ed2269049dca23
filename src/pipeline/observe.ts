/** What stands around all stages: only measures and forgets. Makes a span of each call, `execute_tool NAME`, with its stages as children. */

import type { StageName } from '../base/call.ts';
import type { Attributes } from '../store/telemetry/otlp.ts';
import { isPlainId } from '../store/telemetry/trace-context.ts';
import { AFTERWARDS, type OpenSpan, type Tracer } from '../store/telemetry/tracer.ts';
import { runsBy } from '../tools/runs.ts';
import type { Outcome } from './outcome.ts';
import { type Call, type CheckedCall, type Handler, isJudged, outcomeOf } from './stage.ts';

/** Stands for names that no tool of the session has: what callers write goes to no collector. */
const UNKNOWN = 'unknown';

/** Names of the stages in spans. */
const SPANS: Record<StageName, string> = {
  waiting: 'policy',
  asking: 'approval',
  queued: 'queue',
  starting: 'start',
  running: 'run',
  settling: AFTERWARDS,
};

/** Nothing of spans is done, and nothing costs time, without a tracer. `forget` is called when a call is over. */
export const observed =
  (run: Handler, { tracer, forget }: { tracer: Tracer | undefined; forget(call: Call): void }): Handler =>
  async (call) => {
    try {
      return await (tracer ? traced(run, call, tracer) : run(call));
    } finally {
      forget(call);
    }
  };

async function traced(run: Handler, call: Call, tracer: Tracer): Promise<Outcome> {
  const span = tracer.begin(call.options.span);
  const enter = (stage: StageName) => span.enter(SPANS[stage]);
  let last: CheckedCall | undefined;
  const { child } = call;
  enter('waiting');
  const outcome = await outcomeOf(run, {
    ...call,
    enter(stage) {
      enter(stage);
      call.enter?.(stage);
    },
    reached(it) {
      last = it;
      call.reached(it);
    },
    announce(state) {
      if (state.status === 'blocked-on-user') enter('asking');
      if (state.status === 'in-progress') enter('running');
      call.announce(state);
    },
    child: child && ((tool, input, control) => child(tool, input, { ...control, span: span.context })),
  });
  end(span, { call, last, outcome });
  return outcome;
}

interface EndedCall {
  readonly call: Call;
  readonly last: CheckedCall | undefined;
  readonly outcome: Outcome;
}

/** Attributes hold no argument, no path and no part of a result. */
function end(span: OpenSpan, { call, last, outcome }: EndedCall): void {
  const tool = call.toolset.get(call.name)?.tool;
  const name = tool?.name ?? UNKNOWN;
  const attributes: Attributes = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': name,
    'gen_ai.tool.type': tool && runsBy(tool, 'providers') ? 'extension' : 'function',
    ...(isPlainId(call.id) && { 'gen_ai.tool.call.id': call.id }),
    ...(tool && { 'ringfence.tier': last?.checked.tier ?? tool.tier }),
    ...(last && isJudged(last) && { 'ringfence.decision': last.decision }),
    ...(outcome.cached && { 'ringfence.cached': true }),
    ...(outcome.retriesAttempted > 0 && { 'ringfence.retries': outcome.retriesAttempted }),
  };
  const error = outcome.error?.code;
  span.end({ name: `execute_tool ${name}`, kind: 'internal', attributes, error });
}
