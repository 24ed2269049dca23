/** Answers of a model in place of a result's text: web_fetch and web_search with `summarize`. */
import { withoutMarkers } from '../../base/text/shown-text.ts';
import { SUMMARY_PROFILE } from '../../tools/web/summary.ts';
import type { Outcome } from '../outcome.ts';
import type { ClearedCall } from '../stage.ts';

/** Members of a result of `task_delegate`. */
type Answer = { readonly summary?: string; readonly ended?: string; readonly reason?: string };

/**
 * Has a model answer what a call wants to know of its result: by a call of `task_delegate` without tools, which is judged, paid for and
 * recorded by itself. Without an answer the result stays whole, and a warning says why.
 */
export async function withSummary(call: ClearedCall, outcome: Outcome): Promise<Outcome> {
  const { tool, input } = call.checked;
  const asked = outcome.error ? undefined : tool.summarized?.(input as never, outcome.data as never);
  if (!asked) return outcome;
  const task = {
    agent: SUMMARY_PROFILE,
    prompt: asked.question,
    context: `<untrusted-content>\n${withoutMarkers(asked.text)}\n</untrusted-content>`,
    tools: [],
    maxCycles: 1,
  };
  const result = await call.child?.('task_delegate', task, { signal: call.controller.signal, onState() {} });
  const { summary, ended, reason } = (result?.success ? result.data : {}) as Answer;
  if (ended === 'done') return { ...outcome, data: { ...asked.data, summary } } as Outcome;
  const why = result && !result.success ? `${result.error.code}: ${result.error.message}` : (reason ?? 'no answer');
  return { ...outcome, warnings: [...outcome.warnings, `there is no summary: ${why}`] };
}
