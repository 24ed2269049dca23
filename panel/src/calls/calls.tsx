/** All calls of all sessions, live: what waits and runs on top, then the newest. */
import { computed, effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { duration, now, preciseDuration } from '../clock.ts';
import { Choice } from '../parts/choice.tsx';
import { VirtualList } from '../parts/virtual-list.tsx';
import { callAddress, calls, isEnded, isSearching, type KnownCall, search, stateOf, wantDetails } from './all-calls.ts';
import { Waterfall } from './waterfall.tsx';

const ROW_PX = 34;

const text = signal('');
const state = signal('');
const tier = signal('');
const tool = signal('');
const session = signal('');

const STATES: Readonly<Record<string, (it: KnownCall) => boolean>> = {
  'under way': (it) => !isEnded(it.state),
  'waits for you': (it) => it.state.status === 'blocked-on-user',
  done: (it) => it.state.status === 'done',
  failed: (it) => ['error', 'rejected-by-user', 'cancelled'].includes(it.state.status),
};
const TIERS = ['read_only', 'write', 'execute', 'external_api'];

const shown = computed(() => {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const isWanted = (it: KnownCall) =>
    (STATES[state.value]?.(it) ?? true) &&
    (tier.value === '' || it.tier === tier.value) &&
    (tool.value === '' || it.tool === tool.value) &&
    (session.value === '' || it.sessionId === session.value) &&
    words.every((word) =>
      `${it.tool} ${it.summary ?? ''} ${it.client ?? ''} ${it.callId}`.toLowerCase().includes(word),
    );
  const wanted = calls.value.filter(isWanted);
  return [...wanted.filter((it) => !isEnded(it.state)), ...wanted.filter((it) => isEnded(it.state))];
});

const tools = computed(() => [...new Set(calls.value.map((it) => it.tool))].sort());

const sessions = computed(() => {
  const names = new Map<string, string>();
  for (const { sessionId, client, principal } of calls.value)
    if (client !== undefined) names.set(sessionId, `${client} (${principal}, ${sessionId.slice(-6)})`);
  return [...names].slice(0, 100);
});

/** Whether a filter needs what the notices of calls don't tell. */
const needsDetails = computed(() => text.value !== '' || tier.value !== '');
effect(() => {
  if (needsDetails.value !== isSearching.peek()) search(needsDetails.value);
});

export function Calls() {
  const rows = shown.value;
  return (
    <>
      <div class="bar">
        <h1>Calls</h1>
        <output aria-live="off">
          {rows.length} of {calls.value.length}
        </output>
      </div>
      <form class="bar" onSubmit={(it) => it.preventDefault()}>
        <label>
          Search <input type="search" value={text.value} onInput={(it) => (text.value = it.currentTarget.value)} />
        </label>
        <Choice
          label="State"
          value={state.value}
          options={Object.keys(STATES).map((it) => [it, it])}
          onChoice={(it) => (state.value = it)}
        />
        <Choice
          label="Tool"
          value={tool.value}
          options={tools.value.map((it) => [it, it])}
          onChoice={(it) => (tool.value = it)}
        />
        <Choice
          label="Tier"
          value={tier.value}
          options={TIERS.map((it) => [it, it])}
          onChoice={(it) => (tier.value = it)}
        />
        <Choice
          label="Session"
          value={session.value}
          options={sessions.value}
          onChoice={(it) => (session.value = it)}
        />
      </form>
      {rows.length === 0 ? (
        <p>No call is like that.</p>
      ) : (
        <VirtualList
          label="Calls"
          count={rows.length}
          rowPx={ROW_PX}
          row={(at) => <Row call={rows[at] as KnownCall} />}
        />
      )}
    </>
  );
}

function Row({ call }: { call: KnownCall }) {
  useEffect(() => wantDetails(call));
  const { callId, sessionId, tool, createdAt, state: at, summary = '', durationMs, stagesMs, client } = call;
  const failed = at.status === 'error' || at.status === 'rejected-by-user';
  return (
    <a class="row" href={callAddress(callId, sessionId)} title={client}>
      <span class={`state ${at.status} ${failed ? 'bad' : ''}`}>{stateOf(call)}</span>
      <span class="tool">{tool}</span>
      <code class="summary">{summary}</code>
      {stagesMs ? <Waterfall times={stagesMs} /> : <span class="waterfall" />}
      <span class="dim time">
        {durationMs !== undefined && preciseDuration(durationMs)}
        {!isEnded(at) && duration(now.value - Date.parse(createdAt))}
      </span>
    </a>
  );
}
