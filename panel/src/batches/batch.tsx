/** One batch, live: the graph of its calls, which of them decide how long it takes, and what was expected beside it. */
import { useSignal } from '@preact/signals';
import { callAddress } from '../calls/all-calls.ts';
import { preciseDuration, timeOf } from '../clock.ts';
import { request } from '../connection.ts';
import type { Answer } from '../messages.ts';
import { rowPx } from '../parts/narrow.ts';
import { VirtualList } from '../parts/virtual-list.tsx';
import { Graph } from './graph.tsx';
import { useWatch } from './watch.ts';

type WatchedBatch = Answer<'batches.get'>;
type WatchedCall = WatchedBatch['calls'][number];

export function Batch({ batchId, session }: { batchId: string; session: string | undefined }) {
  const batch = useSignal<WatchedBatch | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const read = async () => {
    try {
      batch.value = await request('batches.get', { batchId, ...(session && { session }) });
      problem.value = undefined;
    } catch (error) {
      problem.value = (error as Error).message;
      throw error;
    }
  };
  useWatch(read, { isOpen: () => batch.value?.running ?? false, sessionId: session }, [batchId, session]);
  const it = batch.value;
  if (!it) return <p>{problem.value ?? 'Asking the daemon …'}</p>;
  const shown = it.calls.map((call) => ({ ...call, kind: kindOf(call), time: timeTold(call) }));
  return (
    <>
      <div class="bar">
        <h1>Batch</h1>
        <output aria-live="polite">
          {it.running ? 'running' : 'ended'}, {it.endedCalls} of {it.totalCalls} calls ended, {it.failedCalls} failed
        </output>
        {it.running && <Cancel batch={it} />}
      </div>
      <dl class="facts">
        <dt>Batch</dt>
        <dd>
          <code>{it.batchId}</code>
        </dd>
        <dt>Agent</dt>
        <dd>
          {it.client} ({it.principal}) in <code>{it.workspace}</code>, {timeOf(it.startedAt)}
        </dd>
        <dt>Time</dt>
        <dd class="took">
          {preciseDuration(it.durationMs)}
          {it.running && ' so far'}
          {it.estimatedMs === undefined
            ? ', nothing to compare: none of these tools ran in the day before'
            : `, estimated ${preciseDuration(it.estimatedMs)}`}
        </dd>
        <dt>Critical path</dt>
        <dd class="path">{it.criticalPath.join(' → ')}</dd>
      </dl>
      <Graph calls={shown} criticalPath={it.criticalPath} />
      <VirtualList
        label="Calls of the batch"
        count={it.calls.length}
        rowPx={rowPx.value}
        row={(at) => <Row call={it.calls[at] as WatchedCall} batch={it} />}
      />
    </>
  );
}

function Cancel({ batch: { batchId, sessionId } }: { batch: WatchedBatch }) {
  const problem = useSignal<string | undefined>(undefined);
  const cancel = () =>
    request('calls.cancel', { callId: batchId, session: sessionId }).then(
      ({ cancelled }) => (problem.value = cancelled ? undefined : 'It has ended already.'),
      (error: Error) => (problem.value = error.message),
    );
  return (
    <>
      <button type="button" class="no" onClick={() => void cancel()}>
        Cancel
      </button>
      {problem.value && <strong class="failed">{problem.value}</strong>}
    </>
  );
}

/** How a call stands, in a word. */
function stateOf({ status, code, endMs }: WatchedCall): string {
  if (status === undefined) return endMs === undefined ? 'waits' : (code ?? 'skipped');
  if (status === 'blocked-on-user') return 'waits for you';
  if (status === 'in-progress') return 'running';
  return code ?? status;
}

const STATE_KINDS: Readonly<Record<string, string>> = { 'blocked-on-user': 'waits', 'in-progress': 'runs' };

const isFailed = ({ code }: WatchedCall): boolean => code !== undefined;

function kindOf(call: WatchedCall): string {
  if (isFailed(call)) return 'failed';
  if (call.endMs !== undefined) return 'done';
  return call.startMs === undefined ? 'waits' : 'running';
}

const slackTold = (ms: number): string => (ms < 1 ? 'no slack' : `slack ${preciseDuration(ms)}`);

function timeTold(call: WatchedCall): string {
  const { startMs, endMs, slackMs, estimatedMs } = call;
  if (startMs !== undefined && endMs !== undefined) return `${preciseDuration(endMs - startMs)}, ${slackTold(slackMs)}`;
  const expected = estimatedMs === undefined ? '' : `, usually ${preciseDuration(estimatedMs)}`;
  return `${stateOf(call)}${expected}`;
}

function Row({ call, batch }: { call: WatchedCall; batch: WatchedBatch }) {
  const { id, tool, callId, startMs, endMs, estimatedMs, slackMs } = call;
  const cells = (
    <>
      <span class={`state ${isFailed(call) ? 'bad' : (STATE_KINDS[call.status ?? ''] ?? '')}`}>{stateOf(call)}</span>
      <span class="tool">{tool}</span>
      <code class="summary">
        {batch.criticalPath.includes(id) ? '◆ ' : ''}
        {id}
      </code>
      <Span batch={batch} call={call} />
      <span class="dim time">
        {[
          ...(startMs === undefined ? [] : [preciseDuration((endMs ?? batch.durationMs) - startMs)]),
          ...(estimatedMs === undefined ? [] : [`usually ${preciseDuration(estimatedMs)}`]),
        ].join(', ')}
      </span>
      <span class="dim time slack-of">{slackTold(slackMs)}</span>
    </>
  );
  return callId === undefined ? (
    <div class="row step">{cells}</div>
  ) : (
    <a class="row step" href={callAddress(callId)}>
      {cells}
    </a>
  );
}

/** When a call ran, as a part of the time of the batch, and for how much longer it could have. */
function Span({ batch, call: { startMs, endMs, slackMs } }: { batch: WatchedBatch; call: WatchedCall }) {
  if (startMs === undefined) return <span class="waterfall" />;
  const total = Math.max(batch.durationMs, 1);
  const percent = (ms: number) => (Math.max(0, ms) / total) * 100;
  const end = endMs ?? batch.durationMs;
  return (
    <svg class="waterfall" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      {endMs !== undefined && <rect class="slack" x={percent(end)} y={3} width={percent(slackMs)} height={2} />}
      <rect class="stage-running" x={percent(startMs)} y={0} width={Math.max(0.5, percent(end - startMs))} height={8} />
    </svg>
  );
}
