/** All calls of all sessions, live: what waits and runs on top, then the newest. */
import { computed, effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { agentOf, folderOf } from '../../../src/store/approvals/question-words.ts';
import { duration, now, preciseDuration, timeOf } from '../clock.ts';
import { Choice } from '../parts/choice.tsx';
import { rowPx } from '../parts/narrow.ts';
import { VirtualList } from '../parts/virtual-list.tsx';
import { callAddress, calls, isEnded, isSearching, type KnownCall, search, wantDetails } from './all-calls.ts';
import { isRefused, State } from './state.tsx';
import { Legend, Waterfall } from './waterfall.tsx';

const text = signal('');
const state = signal('');
const tier = signal('');
const tool = signal('');
const session = signal('');

const STATES: Readonly<Record<string, (it: KnownCall) => boolean>> = {
  'under way': (it) => !isEnded(it.state),
  waits: (it) => it.state.status === 'blocked-on-user',
  done: (it) => it.state.status === 'done',
  failed: (it) => (it.state.status === 'error' && !isRefused(it)) || it.exitCode !== undefined,
  refused: isRefused,
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

const counted = computed(() => {
  const failed = calls.value.filter((it) => STATES.failed?.(it)).length;
  const refused = calls.value.filter(isRefused).length;
  return [...(failed > 0 ? [`${failed} failed`] : []), ...(refused > 0 ? [`${refused} refused`] : [])];
});

export function Calls() {
  const rows = shown.value;
  return (
    <>
      <div class="bar">
        <h1>Calls</h1>
        <p class="dim">
          <output aria-live="off">
            {rows.length} of {calls.value.length}
          </output>
          {counted.value.map((it) => ` · ${it}`)}
        </p>
        <div class="right keys">
          <Legend />
        </div>
      </div>
      <form class="bar filters" onSubmit={(it) => it.preventDefault()}>
        <input
          class="search"
          type="search"
          aria-label="Search"
          placeholder="Search commands, paths, tools, agents"
          value={text.value}
          onInput={(it) => (text.value = it.currentTarget.value)}
        />
        {['', ...Object.keys(STATES)].map((it) => (
          <button
            key={it}
            type="button"
            class="chip"
            aria-pressed={state.value === it}
            onClick={() => (state.value = it)}
          >
            {it || 'all'}
          </button>
        ))}
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
        <p class="empty">
          {calls.value.length === 0
            ? 'No agent has called a tool yet. Connect one: `ringfence install`; or try: `ringfence call file_list`.'
            : 'No call is like that.'}
        </p>
      ) : (
        <div class="flush">
          <div class="row-heads" aria-hidden="true">
            {['Time', 'State', 'Call', 'Agent'].map((it) => (
              <span>{it}</span>
            ))}
            <span class="of-waterfall">Where the time went</span>
            <span class="time">Took</span>
          </div>
          <VirtualList
            label="Calls"
            count={rows.length}
            rowPx={rowPx.value}
            row={(at) => <Row call={rows[at] as KnownCall} />}
          />
        </div>
      )}
    </>
  );
}

/** Tools whose calls are shown by their command alone, without the name of the tool. */
const COMMANDS = ['terminal_execute', 'terminal_background'];

function Row({ call }: { call: KnownCall }) {
  useEffect(() => wantDetails(call));
  const { callId, sessionId, tool, createdAt, state: at, summary = '', durationMs, stagesMs, client = '' } = call;
  const { principal = '', workspace = '' } = call;
  const who = [agentOf({ client, principal }), ...(workspace ? [folderOf({ workspace, cwd: '.' })] : [])].join(' · ');
  const isCommand = COMMANDS.includes(tool) && summary !== '';
  return (
    <a class="row" href={callAddress(callId, sessionId)} title={`${client} ${workspace}`}>
      <span class="dim at" title={new Date(createdAt).toLocaleString()}>
        {timeOf(createdAt)}
      </span>
      <State call={call} />
      <code class="summary" title={summary}>
        <span class={isCommand ? 'hidden' : 'tool'}>{tool}</span> {summary}
      </code>
      <span class="dim agent">{who}</span>
      {stagesMs ? <Waterfall times={stagesMs} /> : <span class="waterfall" />}
      <span class="dim time">
        {durationMs !== undefined && preciseDuration(durationMs)}
        {!isEnded(at) && duration(now.value - Date.parse(createdAt))}
      </span>
    </a>
  );
}
