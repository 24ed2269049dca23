/** The agents that are connected: what each does now, what it asks, how it got on; and ending its work. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { agentOf, folderOf } from '../../../src/store/approvals/question-words.ts';
import { callAddress, calls, isEnded, type KnownCall, wantDetails } from '../calls/all-calls.ts';
import { isRefused } from '../calls/state.tsx';
import { duration, now } from '../clock.ts';
import { request } from '../connection.ts';
import { toTree } from '../machine/sessions.tsx';
import { loadStatus, type OpenSession, status } from '../machine/status.ts';
import { HoldButton } from '../machine/stop.tsx';
import { Table } from '../machine/table.tsx';
import { questions } from '../questions.ts';

const HEADS = ['Agent', 'Now', 'Asks', 'Calls', 'Spent today', 'Hold it back'];

export function Agents() {
  const spent = useSignal<ReadonlyMap<string, number>>(new Map());
  const told = useSignal<string | undefined>(undefined);
  useEffect(() => {
    const today = new Date().toISOString().slice(0, 10);
    request('costs.read', { days: 1 }).then(
      ({ costs }) => {
        const rows = Map.groupBy(
          costs.filter(({ day }) => day === today),
          ({ principal }) => principal,
        );
        spent.value = new Map([...rows].map(([name, all]) => [name, all.reduce((sum, { usd }) => sum + usd, 0)]));
      },
      () => {}, // The connection is lost, which the page says already.
    );
  }, []);
  const agents = toTree((status.value?.openSessions ?? []).filter(({ role }) => role === 'agent'));
  const stop = async (session: OpenSession) => {
    const running = calls.value.filter((it) => it.sessionId === session.sessionId && !isEnded(it.state));
    const ended = await Promise.all(
      running.map(({ callId, sessionId }) =>
        request('calls.cancel', { callId, session: sessionId }).then(
          ({ cancelled }) => cancelled,
          () => false,
        ),
      ),
    );
    told.value = `Ended ${ended.filter(Boolean).length} calls of ${agentOf(session)}.`;
  };
  const pauseOrResume = async (session: OpenSession) => {
    const of = { session: session.sessionId };
    try {
      await (session.paused ? request('gateway.resume', of) : request('gateway.pause', of));
      told.value = session.paused
        ? `Calls of ${agentOf(session)} begin again.`
        : `No call of ${agentOf(session)} begins until you resume it.`;
      await loadStatus();
    } catch (error) {
      told.value = `That did not work: ${(error as Error).message}`;
    }
  };
  return (
    <>
      <div class="bar">
        <h1>Agents</h1>
        <p class="dim">{agents.length === 0 ? 'None is connected.' : `${agents.length} connected`}</p>
        <output aria-live="polite">{told.value}</output>
      </div>
      {agents.length === 0 && (
        <p class="empty">
          An agent stands here as soon as it is connected. <code>ringfence install</code> connects the ones that this
          machine has; <code>.</code> pauses all of them.
        </p>
      )}
      <Table title="Connected" heads={HEADS} kind="stack">
        {agents.map(({ session, depth }) => (
          <Agent
            key={session.sessionId}
            session={session}
            depth={depth}
            usd={spent.value.get(session.principal)}
            onPause={() => void pauseOrResume(session)}
            onStop={() => void stop(session)}
          />
        ))}
      </Table>
    </>
  );
}

interface AgentProps {
  readonly session: OpenSession;
  readonly depth: number;
  readonly usd: number | undefined;
  /** Lets no call of it begin, or lets them begin again. */
  onPause(): void;
  onStop(): void;
}

function Agent({ session, depth, usd, onPause, onStop }: AgentProps) {
  const own = calls.value.filter((it) => it.sessionId === session.sessionId);
  const asks = [...questions.value.values()].filter((it) => it.sessionId === session.sessionId).length;
  const failed = own.filter((it) => it.state.status === 'error' && !isRefused(it)).length;
  const refused = own.filter(isRefused).length;
  const pauseWord = session.paused ? 'Resume' : 'Pause';
  const counts = [
    `${own.length} calls`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(refused > 0 ? [`${refused} refused`] : []),
  ];
  return (
    <tr>
      <td>
        {depth > 0 && <span class="dim">{`${'  '.repeat(depth)}└ sub-agent `}</span>}
        <strong>{agentOf(session)}</strong> in{' '}
        <span title={session.workspace}>{folderOf({ workspace: session.workspace, cwd: '.' })}</span>
        {session.mode && <span class="dim">, {session.mode}</span>}
      </td>
      <td class="now">
        {session.paused && (
          <strong class="warn" title={`by ${session.paused.by} at ${session.paused.at}`}>
            ‖ paused{' '}
          </strong>
        )}
        <Now calls={own} />
      </td>
      <td>{asks > 0 ? <a href="#/inbox">{asks} questions</a> : <span class="dim">–</span>}</td>
      <td>{counts.join(' · ')}</td>
      <td>{usd === undefined ? <span class="dim">–</span> : `$${usd.toFixed(usd < 1 ? 4 : 2)}`}</td>
      <td class="acts">
        <button type="button" onClick={onPause} aria-label={`${pauseWord} ${agentOf(session)}`}>
          {pauseWord}
        </button>{' '}
        <HoldButton onHeld={onStop}>Hold to end its calls</HoldButton>
      </td>
    </tr>
  );
}

/** What an agent does, or since when it does nothing. */
function Now({ calls: own }: { calls: readonly KnownCall[] }) {
  const running = own.filter((it) => !isEnded(it.state));
  const [first] = running.length > 0 ? running : own;
  useEffect(() => first && wantDetails(first));
  if (!first) return <span class="dim">nothing yet</span>;
  const since = duration(now.value - Date.parse(first.createdAt));
  return (
    <a href={callAddress(first.callId, first.sessionId)}>
      {running.length === 0 ? `idle ${since}` : <code>{(first.summary || first.tool).slice(0, 80)}</code>}
      {running.length > 0 && ` ${since}`}
      {running.length > 1 && ` and ${running.length - 1} more`}
    </a>
  );
}
