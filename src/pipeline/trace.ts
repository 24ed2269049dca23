/** Makes a span of each call: `execute_tool NAME`, with the stages that the call came through as children. */
import type { Attributes } from '../telemetry/otlp.ts';
import { isPlainId } from '../telemetry/trace-context.ts';
import { AFTERWARDS, type OpenSpan, type Tracer } from '../telemetry/tracer.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import { type Call, type CheckedCall, isJudged, type Stage } from './stage.ts';

/** Stands for names that no tool of the session has: what callers write goes to no collector. */
const UNKNOWN = 'unknown';

/** Outermost of all. Nothing is done, and nothing costs time, without a tracer. */
export const trace =
  (tracer: Tracer | undefined): Stage =>
  (next) => {
    if (!tracer) return next;
    return async (call) => {
      const span = tracer.begin(call.options.span);
      let last: CheckedCall | undefined;
      const { child } = call;
      const traced: Call = {
        ...call,
        trace: span,
        reached(it) {
          last = it;
          call.reached(it);
        },
        announce(state) {
          if (state.status === 'blocked-on-user') span.enter('approval');
          if (state.status === 'in-progress') span.enter('run');
          call.announce(state);
        },
        ...(child && { child: (tool, input, control) => child(tool, input, { ...control, span: span.context }) }),
      };
      span.enter('policy');
      const outcome = await outcomeOf(next, traced);
      end(span, { call, last, outcome });
      return outcome;
    };
  };

/** Begins a stage of the call's span. */
export const traceStage =
  <Taken extends Call>(name: string): Stage<Taken> =>
  (next) =>
  (call) => {
    call.trace?.enter(name);
    return next(call);
  };

/** Begins the span's last two stages: the start of a host until the call runs, and what is done once it ran. */
export const traceRun =
  <Taken extends Call>(): Stage<Taken> =>
  (next) =>
  (call) => {
    const { trace: span } = call;
    if (!span) return next(call);
    span.enter('start');
    return next(call).finally(() => span.enter(AFTERWARDS));
  };

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
    'gen_ai.tool.type': tool?.upstream ? 'extension' : 'function',
    ...(isPlainId(call.id) && { 'gen_ai.tool.call.id': call.id }),
    ...(tool && { 'ringfence.tier': last?.checked.tier ?? tool.tier }),
    ...(last && isJudged(last) && { 'ringfence.decision': last.decision }),
    ...(outcome.cached && { 'ringfence.cached': true }),
    ...(outcome.retriesAttempted > 0 && { 'ringfence.retries': outcome.retriesAttempted }),
  };
  const error = outcome.error?.code;
  span.end({ name: `execute_tool ${name}`, kind: 'internal', attributes, error });
}
