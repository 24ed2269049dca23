/** One call: what it was asked to do, what it did, what it was kept from, and taking it back. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { bytes, preciseDuration } from '../clock.ts';
import { onNotice, request } from '../connection.ts';
import { status } from '../machine/status.ts';
import type { Answer, AuditEntry, CallRecord, ToolResult } from '../messages.ts';
import { Diff } from '../parts/diff.tsx';
import { useKeys } from '../parts/keys.ts';
import { TextBlock } from '../parts/text-block.tsx';
import { callAddress, calls, isEnded, wantDetails } from './all-calls.ts';
import { Output } from './output.tsx';
import { isRefused, State } from './state.tsx';
import { undo } from './undo.ts';
import { StageTable, Waterfall } from './waterfall.tsx';

/** Called with the id and session of each call that changes. */
const watchers = new Set<(callId: string, session: string | undefined) => void>();
onNotice('call.update', ({ callId, sessionId }) => {
  for (const it of watchers) it(callId, sessionId);
});

/** A call as addresses name it; of several with its id the newest, if they name no session. */
interface Named {
  readonly callId: string;
  readonly session?: string | undefined;
}

export function Call({ callId, session }: Named) {
  const record = useSignal<CallRecord | undefined>(undefined);
  const entries = useSignal<readonly AuditEntry[]>([]);
  const problem = useSignal<string | undefined>(undefined);
  useEffect(() => {
    const load = async () => {
      const [found, audited] = await Promise.all([
        request('calls.get', { callId, session }).catch((error: Error) => error),
        request('audit.query', { callId, session, order: 'oldest', limit: 50 }).catch(() => ({ entries: [] })),
      ]);
      entries.value = audited.entries;
      if (found instanceof Error) problem.value = found.message;
      else record.value = found;
    };
    const watch = (id: string, of: string | undefined) => {
      if (id === callId && (session === undefined || of === session)) void load();
    };
    watchers.add(watch);
    void load();
    return () => watchers.delete(watch);
  }, [callId, session]);
  const call = record.value;
  const known = calls.value.find((it) => it.callId === callId && (session === undefined || it.sessionId === session));
  useEffect(() => {
    if (known) wantDetails(known);
  });
  const input = entries.value.find((it) => it.input !== undefined)?.input;
  return (
    <>
      <div class="bar">
        <h1>{call?.tool ?? known?.tool ?? entries.value[0]?.tool ?? 'Call'}</h1>
        {call && <State call={{ state: call.state, ...codeOf(call.result) }} />}
        {call && !isEnded(call.state) && <Cancel call={call} />}
        {call?.result && call.result.metadata.undo !== 'none' && (
          <Undo callId={callId} session={session} workspace={known?.workspace} />
        )}
      </div>
      {!call && problem.value && <p>The call itself is no longer kept, but the record has it.</p>}
      <dl class="facts">
        <dt>Call</dt>
        <dd>
          <code>{callId}</code>
        </dd>
        {known?.workspace && (
          <>
            <dt>Agent</dt>
            <dd>
              {known.client} ({known.principal}) in <code>{known.workspace}</code>
            </dd>
          </>
        )}
        {known?.parentCallId && (
          <>
            <dt>Made by</dt>
            <dd>
              <a href={callAddress(known.parentCallId)}>another call</a>
            </dd>
          </>
        )}
      </dl>
      {input !== undefined && (
        <section>
          <h2>Input</h2>
          <TextBlock label="Input">{textOf(input)}</TextBlock>
        </section>
      )}
      <Output callId={callId} session={session} />
      {call?.result && <Result result={call.result} />}
      {call?.stagesMs && (
        <section>
          <h2>Where the time went</h2>
          <Waterfall times={call.stagesMs} />
          <StageTable times={call.stagesMs} />
        </section>
      )}
      <Record entries={entries.value} />
    </>
  );
}

const codeOf = (result: ToolResult | undefined): { code?: string } =>
  result?.success === false ? { code: result.error.code } : {};

const textOf = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? ''));

function Cancel({ call }: { call: CallRecord }) {
  const { callId, sessionId } = call;
  return (
    <button type="button" class="no" onClick={() => void request('calls.cancel', { callId, session: sessionId })}>
      Cancel
    </button>
  );
}

type Undone = Answer<'calls.undo'>;

/** Takes a call back, and the taking back itself. */
function Undo({ callId, session, workspace }: Named & { workspace: string | undefined }) {
  const undone = useSignal<Undone | undefined>(undefined);
  const last = useSignal<{ callId: string; is: 'call' | 'undo' | 'redo' }>({ callId, is: 'call' });
  const conflicts = useSignal<readonly string[]>([]);
  const problem = useSignal<string | undefined>(undefined);
  const take = async (force: boolean) => {
    problem.value = undefined;
    try {
      // An undo is a call of this page's own session.
      const own = last.value.is === 'call' ? session : undefined;
      const answer = await undo({ callId: last.value.callId, session: own, workspace }, force);
      undone.value = answer;
      // With a conflict nothing was restored, unless it was forced.
      const isDone = !answer.error && (answer.conflicts.length === 0 || force);
      conflicts.value = isDone ? [] : answer.conflicts;
      if (isDone && answer.callId)
        last.value = { callId: answer.callId, is: last.value.is === 'undo' ? 'redo' : 'undo' };
    } catch (error) {
      problem.value = (error as Error).message;
    }
  };
  const { is } = last.value;
  useKeys({ u: () => void take(false) });
  return (
    <>
      <button type="button" aria-keyshortcuts="u" onClick={() => void take(false)}>
        {is === 'undo' ? 'Redo' : 'Undo'} <kbd>u</kbd>
      </button>
      {conflicts.value.length > 0 && (
        <button type="button" class="no" onClick={() => void take(true)}>
          {is === 'undo' ? 'Redo' : 'Undo'} all the same
        </button>
      )}
      <output aria-live="polite">
        {problem.value && <strong class="failed">{problem.value}</strong>}
        {undone.value?.error && <strong class="failed">{undone.value.error.message}</strong>}
        {undone.value && !undone.value.error && conflicts.value.length === 0 && (
          <>
            {is === 'undo' ? 'Undone' : 'Done again'}: {undone.value.restored.join(', ')}
          </>
        )}
        {conflicts.value.length > 0 && <span class="bad"> Changed since: {conflicts.value.join(', ')}</span>}
      </output>
    </>
  );
}

function Result({ result }: { result: ToolResult }) {
  const { metadata } = result;
  const { denied = [], withheld, filesChanged = [], warnings = [] } = metadata;
  const data = result.success ? (result.data as Readonly<Record<string, unknown>> | undefined) : undefined;
  const { stdout: _, stderr: __, diff, ...rest } = data ?? {};
  return (
    <>
      {!result.success && (
        <section>
          <h2 class={isRefused({ state: { status: 'error' }, code: result.error.code }) ? '' : 'bad'}>
            {result.error.code}
          </h2>
          <p>{result.error.message}</p>
          {result.error.suggestion && <p>{result.error.suggestion}</p>}
        </section>
      )}
      {denied.length > 0 && (
        <section>
          <h2>Denied to it</h2>
          <ul>
            {denied.map(({ target, reason, suggestion, rule }) => (
              <li>
                <code>{target}</code> {reason} {rule && <span class="dim">(rule {rule})</span>} {suggestion}
              </li>
            ))}
          </ul>
        </section>
      )}
      {withheld && (
        <section>
          <h2>Kept from it</h2>
          <TextBlock label="Kept from it">{textOf(withheld)}</TextBlock>
        </section>
      )}
      {warnings.length > 0 && (
        <ul class="warnings">
          {warnings.map((it) => (
            <li>{it}</li>
          ))}
        </ul>
      )}
      {typeof diff === 'string' && diff !== '' && <Diff text={diff} label="Changes" />}
      {Object.keys(rest).length > 0 && (
        <section>
          <h2>Result</h2>
          <TextBlock label="Result">{textOf(rest)}</TextBlock>
        </section>
      )}
      {filesChanged.length > 0 && (
        <section>
          <h2>Files changed</h2>
          <ul>
            {filesChanged.map(({ path, kind, from }) => (
              <li>
                {kind} <code>{from ? `${from} → ${path}` : path}</code>
              </li>
            ))}
          </ul>
        </section>
      )}
      <Resources metadata={metadata} />
    </>
  );
}

function Resources({ metadata }: Pick<ToolResult, 'metadata'>) {
  const { resources, durationMs, queuedMs, cached, retriesAttempted, tier, undo, costUsd } = metadata;
  const most = status.value?.bounds[tier ?? ''] ?? {};
  const of = (bound: number | undefined, format: (value: number) => string) =>
    bound === undefined ? '' : ` of at most ${format(bound)}`;
  const { cpuMs, peakBytes, outputBytes, processes, verdict, enforcedBy } = resources;
  const waited = `${preciseDuration(queuedMs)} of it queued${cached ? ', cached' : ''}`;
  const facts: [string, string][] = [
    ['Took', `${preciseDuration(durationMs)}${of(most.timeoutMs, preciseDuration)}, ${waited}`],
    ['Tier', tier ?? 'not known'],
    ['CPU', `${preciseDuration(cpuMs)}${of(most.cpuMs, preciseDuration)}`],
    [
      'Memory',
      peakBytes === undefined
        ? 'not measured'
        : `${bytes(peakBytes)}${of(most.memoryMb, (it) => bytes(it * 1024 * 1024))}`,
    ],
    ['Output', `${bytes(outputBytes)}${of(most.outputBytes, bytes)}`],
    ...(processes === undefined
      ? []
      : [['Processes', `${processes}${of(most.processes, String)}`] as [string, string]]),
    ...(costUsd === undefined ? [] : [['Cost', `$${costUsd}`] as [string, string]]),
    ['Ended by', `${verdict} (${enforcedBy})`],
    ['Undo', undo],
    ...(retriesAttempted > 0 ? [['Retries', String(retriesAttempted)] as [string, string]] : []),
  ];
  return (
    <section class="resources">
      <h2>Resources</h2>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
      <p class="dim">The limits are those of the policy that is in force now.</p>
    </section>
  );
}

function Record({ entries }: { entries: readonly AuditEntry[] }) {
  if (entries.length === 0) return null;
  return (
    <section>
      <h2>On record</h2>
      <ul>
        {entries.map(({ seq, at, kind, decision, rule, code }) => (
          <li>
            <span class="dim">{new Date(at).toLocaleString()}</span> {kind} {decision} {rule && <code>{rule}</code>}{' '}
            {code} <span class="dim">entry {seq}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
