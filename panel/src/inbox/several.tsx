/** All questions of one agent, answered at once: each is named, and none is remembered. */
import { useSignal } from '@preact/signals';
import { agentOf, titleText } from '../../../src/store/approvals/question-words.ts';
import type { Approval } from '../messages.ts';
import { answer, type PersonsAnswer } from '../questions.ts';
import { useArmed } from './arming.ts';

export function Several({ all, onEnd }: { all: readonly Approval[]; onEnd: () => void }) {
  const left = useSignal<ReadonlySet<string>>(new Set());
  const words = useSignal('');
  const isArmed = useArmed(all.map(({ approvalId, digest }) => `${approvalId} ${digest}`).join());
  // A question that is too long for the list is only answered by itself.
  const shown = all.filter((it) => !it.truncated);
  const chosen = shown.filter((it) => !left.value.has(it.approvalId));
  const send = (given: PersonsAnswer) => {
    if (!isArmed) return;
    for (const it of chosen) void answer(it, given);
    onEnd();
  };
  const toggle = (id: string) => {
    const next = new Set(left.value);
    if (!next.delete(id)) next.add(id);
    left.value = next;
  };
  const feedback = words.value.trim();
  return (
    <>
      <header>
        <h2>
          {chosen.length} questions of {agentOf(all[0] as Approval)}
        </h2>
        <p class="dim">One answer for all that are chosen, each once.</p>
      </header>
      <ul class="points several">
        {shown.map((it) => (
          <li key={it.approvalId} class={it.impact.level === 'high' ? 'warn' : ''}>
            <input
              type="checkbox"
              id={`several-${it.approvalId}`}
              checked={!left.value.has(it.approvalId)}
              onChange={() => toggle(it.approvalId)}
            />
            <label htmlFor={`several-${it.approvalId}`}>{titleText(it)}</label>
          </li>
        ))}
      </ul>
      <footer class="answers">
        <button
          type="button"
          class="yes"
          aria-disabled={!isArmed || chosen.length === 0}
          onClick={() => send({ decision: 'approve' })}
        >
          Allow {chosen.length} once
        </button>
        <button
          type="button"
          class="no"
          aria-disabled={!isArmed || chosen.length === 0}
          onClick={() => send({ decision: 'deny', ...(feedback && { feedback }) })}
        >
          Deny {chosen.length}
        </button>
        <button type="button" onClick={onEnd}>
          Back
        </button>
        <Words value={words.value} onInput={(it) => (words.value = it)} />
      </footer>
    </>
  );
}

/** The field for what the agent gets to read with a no. */
export const Words = ({ value, onInput }: { value: string; onInput: (value: string) => void }) => (
  <label class="words">
    <span class="hidden">Words for the agent, if you say no</span>
    <input
      type="text"
      placeholder="Words for the agent"
      maxLength={4096}
      value={value}
      onInput={(it) => onInput(it.currentTarget.value)}
    />
  </label>
);
