/** Everything that waits for a person, of all sessions, the oldest first. */
import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { callAddress } from '../calls/all-calls.ts';
import { duration, now } from '../clock.ts';
import { fleet, nodeOf } from '../fleet/fleet-name.ts';
import { questions, type Settled, settled } from '../questions.ts';
import { useArming } from './arming.ts';
import { Card } from './card.tsx';

export function Inbox() {
  const list = useRef<HTMLDivElement>(null);
  useArming(list);
  const waiting = [...questions.value.values()];
  return (
    <div ref={list}>
      <div class="bar">
        <h1>Inbox</h1>
        <p aria-live="polite">{waiting.length === 0 ? 'No call waits for you.' : `${waiting.length} waiting`}</p>
        <Notify />
      </div>
      {waiting.length > 0 && (
        <p class="dim">
          <kbd>Tab</kbd> goes to a question; <kbd>y</kbd> approves and <kbd>n</kbd> denies the one that has the focus.
        </p>
      )}
      {waiting.map((it) => (
        <Card key={it.approvalId} approval={it} />
      ))}
      <Answered all={settled.value} />
    </div>
  );
}

/** A fleet does not tell more of a question that is over. */
const ELSEWHERE = 'Over: answered elsewhere, or its call ended';

const DECISIONS: Readonly<Record<string, string>> = {
  approve: 'Approved',
  deny: 'Denied',
  expired: 'Expired: nobody answered',
  withdrawn: 'Withdrawn: the call ended',
};

/** What the daemon confirmed since this page was opened. */
function Answered({ all }: { all: readonly Settled[] }) {
  if (all.length === 0) return null;
  return (
    <section>
      <h2>Confirmed by the {fleet.value === undefined ? 'daemon' : 'nodes'}</h2>
      <ul class="answered" aria-live="polite">
        {all.map(({ approval, decision, by, atMs }) => (
          <li key={approval.approvalId}>
            <strong>{DECISIONS[decision] ?? ELSEWHERE}</strong>{' '}
            {fleet.value === undefined ? (
              <a href={callAddress(approval.callId, approval.door ? undefined : approval.sessionId)}>{approval.tool}</a>
            ) : (
              `${approval.tool} on ${nodeOf(approval.approvalId)}`
            )}{' '}
            <span class="dim">
              {by !== undefined && `by ${by}, `}
              {duration(now.value - atMs)} ago
            </span>
          </li>
        ))}
      </ul>
    </section>
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
      Notify me of new questions
    </button>
  );
}
