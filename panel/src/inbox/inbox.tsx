/** Everything that waits for a person, of all sessions: a list, the oldest first, and the chosen question beside it. */
import { signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { agentOf, commandOf, folderOf, leftOf, titleOf } from '../../../src/store/approvals/question-words.ts';
import { callAddress } from '../calls/all-calls.ts';
import { duration, now, timeOf } from '../clock.ts';
import { fleet, nodeOf } from '../fleet/fleet-name.ts';
import type { Approval } from '../messages.ts';
import { Icon, type IconName } from '../parts/icon.tsx';
import { useKeys } from '../parts/keys.ts';
import { questions, type Settled, settled } from '../questions.ts';
import { Question } from './question.tsx';
import { Several } from './several.tsx';

/** The chosen question, waiting or answered, and where it stood in the list. */
const chosen = signal<{ readonly id: string; readonly at: number } | undefined>(undefined);
/** Whether a narrow screen shows the chosen question instead of the list. */
const isOpen = signal(false);
/** Whether all questions of the chosen one's agent are answered at once. */
const isSeveral = signal(false);

const choose = (id: string, at: number): void => {
  chosen.value = { id, at };
};

/** Chooses the next question or the one before; of what is chosen now, since keys may come faster than the page is drawn. */
function move(by: number): void {
  const waiting = [...questions.value.values()];
  const at = waiting.findIndex((it) => it.approvalId === chosen.value?.id);
  const to = Math.min(waiting.length - 1, Math.max(0, (at < 0 ? (chosen.value?.at ?? 0) : at) + by));
  const next = waiting[to];
  if (next) choose(next.approvalId, to);
}

export function Inbox() {
  const waiting = [...questions.value.values()];
  const at = waiting.findIndex((it) => it.approvalId === chosen.value?.id);
  const past =
    at < 0 ? settled.value.find((it) => it.approvalId === chosen.value?.id && chosen.value.at < 0) : undefined;
  // A question that is over gives its place to the next one.
  const here = at >= 0 ? at : Math.min(chosen.value?.at ?? 0, waiting.length - 1);
  const approval = past ? undefined : waiting[Math.max(0, here)];
  useKeys({ j: () => move(1), k: () => move(-1) });
  useEffect(() => {
    isOpen.value = false;
    isSeveral.value = false;
  }, []);
  const fellows = approval ? waiting.filter((it) => agentOf(it) === agentOf(approval)) : [];
  const agents = new Set(waiting.map(agentOf)).size;
  return (
    <>
      <div class="bar">
        <h1>Inbox</h1>
        <p class="dim" aria-live="polite">
          {waiting.length === 0
            ? 'No call waits for you.'
            : `${waiting.length} waiting, ${agents === 1 ? '1 agent holds' : `${agents} agents hold`}`}
        </p>
        <div class="right">
          {waiting.length > 1 && (
            <span class="dim keys">
              <kbd>j</kbd> <kbd>k</kbd> to move
            </span>
          )}
          <Notify />
          {fellows.length > 1 && !isSeveral.value && (
            <button type="button" onClick={() => (isSeveral.value = true)}>
              Answer all of {agentOf(fellows[0] as Approval)}…
            </button>
          )}
        </div>
      </div>
      <div class={`panes flush ${isOpen.value ? 'open' : ''}`}>
        <div class="list">
          <ul aria-label="Waiting">
            {waiting.map((it, index) => (
              <li key={it.approvalId}>
                <Row approval={it} isChosen={it === approval} onChoice={() => choose(it.approvalId, index)} />
              </li>
            ))}
          </ul>
          {settled.value.length > 0 && <h2>Answered</h2>}
          <ul class="answered" aria-label="Answered" aria-live="polite">
            {settled.value.map((it) => (
              <li key={it.approvalId}>
                <PastRow past={it} isChosen={it === past} />
              </li>
            ))}
          </ul>
        </div>
        <div class="read">
          <button type="button" class="back" onClick={() => (isOpen.value = false)}>
            ‹ Inbox
          </button>
          {isSeveral.value && fellows.length > 1 ? (
            <Several all={fellows} onEnd={() => (isSeveral.value = false)} />
          ) : approval ? (
            <Question key={approval.approvalId} approval={approval} />
          ) : past ? (
            <Past past={past} />
          ) : (
            <p class="empty">
              Questions stand here when an agent wants what your policy leaves to you: a new host, a hidden file, to
              publish. They also ring in a terminal: <code>ringfence approvals watch</code>.
            </p>
          )}
        </div>
      </div>
    </>
  );
}

/** The sign of what is asked. */
function iconOf(approval: Approval): IconName {
  const { door, effects, tool, rule } = approval;
  if (door)
    return (
      { host: 'host', upload: 'host', secret: 'key', path: 'folder', signature: 'key', service: 'host' } as const
    )[door.kind];
  if (rule === 'protected-names') return 'lock';
  if (tool.startsWith('package_')) return 'box';
  if (commandOf(approval) !== undefined) return 'command';
  return effects.some(({ kind }) => kind === 'connect') ? 'host' : 'file';
}

const SOON_MS = 60_000;

/** The title without what the sign says already. */
function what(approval: Approval): string {
  const { verb, before, heavy, after } = titleOf(approval);
  const line = `${verb === '$' || approval.door ? '' : `${verb} `}${before}${heavy}${after}`;
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}

function Row({ approval, isChosen, onChoice }: { approval: Approval; isChosen: boolean; onChoice: () => void }) {
  const soon = Date.parse(approval.expiresAt) - now.value < SOON_MS;
  const program = approval.door ? (commandOf(approval) ?? approval.tool) : undefined;
  const where = fleet.value === undefined ? folderOf(approval) : nodeOf(approval.approvalId);
  return (
    <button
      type="button"
      class={`item ${approval.impact.level === 'high' ? 'grave' : ''}`}
      aria-current={isChosen}
      onClick={() => {
        onChoice();
        isOpen.value = true;
        isSeveral.value = false;
      }}
    >
      <Icon name={iconOf(approval)} />
      <b>{what(approval)}</b>
      <span class={`left ${soon ? 'soon' : ''}`}>{leftOf(approval, now.value).replace(' left', '')}</span>
      <span class="sub">
        {[...(program === undefined ? [] : [program.slice(0, 80)]), agentOf(approval), where].join(' · ')}
      </span>
    </button>
  );
}

/** A fleet does not tell more of a question that is over. */
const ELSEWHERE = 'Over: answered elsewhere, or its call ended';

const DECISIONS: Readonly<Record<string, string>> = {
  approve: 'yes',
  deny: 'no',
  expired: 'nobody answered',
  withdrawn: 'the call ended',
};

/** How a question ended: the answer with the words the person added, or why nobody answered it. */
const endOf = ({ decision, words }: Settled): string =>
  `${DECISIONS[decision] ?? ELSEWHERE}${words ? `: “${words}”` : ''}`;

function PastRow({ past, isChosen }: { past: Settled; isChosen: boolean }) {
  return (
    <button
      type="button"
      class="item past"
      aria-current={isChosen}
      onClick={() => {
        choose(past.approvalId, -1);
        isOpen.value = true;
        isSeveral.value = false;
      }}
    >
      <Icon name={past.decision === 'approve' ? 'check' : past.decision === 'deny' ? 'barred' : 'clock'} />
      <b>{past.what}</b>
      <span class="left" title={timeOf(new Date(past.atMs).toISOString())}>
        {duration(now.value - past.atMs)} ago
      </span>
      <span class="sub">{[endOf(past), past.who ?? past.by].join(' · ')}</span>
    </button>
  );
}

function Past({ past }: { past: Settled }) {
  return (
    <>
      <header>
        <h2>{past.what}</h2>
        <p class="dim">
          {endOf(past)} · by {past.by} · {timeOf(new Date(past.atMs).toISOString())}
        </p>
      </header>
      {fleet.value === undefined && (
        <p>
          <a href={callAddress(past.callId, past.sessionId)}>Open the call</a> ·{' '}
          <a href="#/answers">What is remembered</a>
        </p>
      )}
    </>
  );
}

/** Asks the browser whether the page may show a notice when a question comes while the page is not in view. */
function Notify() {
  const permission = useSignal(typeof Notification === 'undefined' ? 'denied' : Notification.permission);
  if (permission.value !== 'default') return null;
  const ask = async () => {
    permission.value = await Notification.requestPermission();
  };
  return (
    <button type="button" onClick={() => void ask()}>
      Notify me
    </button>
  );
}
