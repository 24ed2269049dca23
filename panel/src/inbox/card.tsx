/** One question to a person: all that is known of the call, and the buttons that answer it. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { duration, now } from '../clock.ts';
import { request } from '../connection.ts';
import { fleet, nodeOf } from '../fleet/fleet-name.ts';
import type { Approval, Effect, Whole } from '../messages.ts';
import { Diff } from '../parts/diff.tsx';
import { TextBlock } from '../parts/text-block.tsx';
import { answer, type PersonsAnswer, sendings } from '../questions.ts';
import { isArmed } from './arming.ts';
import { approveLabel, ONCE, Remember, type Remembered, toRemember } from './remember.tsx';

/** The same key as long as the card shows the same. */
export const cardKey = ({ approvalId, digest }: Approval): string => `${approvalId} ${digest}`;

const TYPING = 'input, textarea, select';

export function Card({ approval }: { approval: Approval }) {
  const { approvalId, tool, impact } = approval;
  const whole = useSignal<Whole | undefined>(undefined);
  const chosen = useSignal<Remembered>(ONCE);
  const words = useSignal('');
  useEffect(() => {
    // A question that was settled meanwhile has no more to show, and its card goes.
    request('approvals.get', { approvalId }).then(
      (it) => (whole.value = it),
      () => {},
    );
  }, [approval.digest]);

  const key = cardKey(approval);
  const sending = sendings.value.get(approvalId);
  // An input that is still being read can not be answered.
  const isReady = isArmed(key) && sending?.is !== 'sent' && (!approval.truncated || whole.value !== undefined);
  const send = (given: PersonsAnswer) => {
    if (isReady) void answer(approval, given);
  };
  const approve = () => {
    const remember = toRemember(chosen.value, approval.rememberMaxMs);
    send({ decision: 'approve', ...(remember && { remember }) });
  };
  const deny = () => {
    const feedback = words.value.trim();
    send({ decision: 'deny', ...(feedback && { feedback }) });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat;
    if (!isPlain || (event.target as Element).matches(TYPING)) return;
    if (event.key === 'y') approve();
    else if (event.key === 'n') deny();
    else return;
    event.preventDefault();
  };
  return (
    <article
      class={`card ${impact.level}`}
      tabIndex={0}
      data-arms={key}
      data-approval={approvalId}
      aria-labelledby={`title-${approvalId}`}
      onKeyDown={onKeyDown}
    >
      <header>
        <h2 id={`title-${approvalId}`}>{tool}</h2>
        {fleet.value !== undefined && <strong>on {nodeOf(approvalId)}</strong>}
        <span class={`level ${impact.level}`}>{impact.level} impact</span>
        <Waiting approval={approval} />
      </header>
      <Question approval={approval} whole={whole.value} />
      {fleet.value !== undefined && approval.truncated && (
        <p class="bad">All of it is too long for the fleet: answer it at {nodeOf(approvalId)}.</p>
      )}
      <Remember
        approval={approval}
        whole={whole.value}
        chosen={chosen.value}
        onChoice={(it) => {
          chosen.value = it;
        }}
      />
      <label class="words">
        Words for the agent, if you say no
        <textarea
          rows={2}
          maxLength={4096}
          value={words.value}
          onInput={(it) => (words.value = it.currentTarget.value)}
        />
      </label>
      <footer>
        <button type="button" class="yes" aria-disabled={!isReady} aria-keyshortcuts="y" onClick={approve}>
          {approveLabel(chosen.value)} <kbd>y</kbd>
        </button>
        <button type="button" class="no" aria-disabled={!isReady} aria-keyshortcuts="n" onClick={deny}>
          {words.value.trim() ? 'Deny with these words' : 'Deny'} <kbd>n</kbd>
        </button>
        <output aria-live="polite">
          {sending?.is === 'sent' && `Sent your ${sending.decision === 'approve' ? 'yes' : 'no'}; not confirmed yet.`}
          {sending?.is === 'failed' && <strong class="failed">{sending.reason}</strong>}
        </output>
      </footer>
    </article>
  );
}

function Waiting({ approval: { requestedAt, expiresAt } }: { approval: Approval }) {
  const leftMs = Date.parse(expiresAt) - now.value;
  return (
    <span class="dim">
      waits {duration(now.value - Date.parse(requestedAt))}, expires in {duration(leftMs)}
    </span>
  );
}

const UNDO = {
  full: 'can be undone',
  partial: 'can be undone in part',
  none: 'cannot be undone',
} as const;

function Question({ approval, whole }: { approval: Approval; whole: Whole | undefined }) {
  const { impact, reason, rule, costUsd, undo, parents, client, principal, workspace, cwd, sessionId } = approval;
  const { input, effects, diff } = whole?.whole ?? approval;
  const folder = cwd === '.' ? workspace : `${workspace}/${cwd}`;
  const chain = parents.map((it) => `${it.tool} › `).join('');
  return (
    <>
      <p>
        {reason}{' '}
        <span class="dim">
          Rule <code>{rule}</code> asks.
        </span>
      </p>
      <Input input={input} />
      <p class="impact">
        <strong>{impact.description}</strong>
        {undo && <span class={undo === 'none' ? 'bad' : ''}> It {UNDO[undo]}.</span>}
        {costUsd !== undefined && <span> It costs about ${costUsd.toFixed(4)}.</span>}
      </p>
      {impact.warnings.length > 0 && (
        <ul class="warnings">
          {impact.warnings.map((it) => (
            <li>{it}</li>
          ))}
        </ul>
      )}
      <Effects effects={effects} />
      {diff !== undefined && <Diff text={diff} label="Changes" />}
      <dl class="facts">
        <dt>Folder</dt>
        <dd>
          <code>{folder}</code>
        </dd>
        <dt>Agent</dt>
        <dd>
          {chain}
          {client || principal}{' '}
          <span class="dim">
            ({principal}, session {sessionId.slice(-8)})
          </span>
        </dd>
      </dl>
    </>
  );
}

/** A command line as such, other inputs as JSON: always all of it. */
function Input({ input }: { input: unknown }) {
  const { command, ...rest } = (input ?? {}) as { command?: unknown };
  const isCommand = typeof command === 'string';
  const others = isCommand ? rest : (input as object);
  return (
    <>
      {isCommand && (
        <TextBlock label="Command" kind="command">
          {command}
        </TextBlock>
      )}
      {Object.keys(others ?? {}).length > 0 && (
        <TextBlock label="Input">{JSON.stringify(others, null, isCommand ? 0 : 2)}</TextBlock>
      )}
    </>
  );
}

const VERBS: Readonly<Record<Effect['kind'], string>> = {
  read: 'reads',
  write: 'writes',
  delete: 'deletes',
  exec: 'runs',
  connect: 'connects to',
  query: 'queries',
};

function Effects({ effects }: { effects: readonly Effect[] }) {
  if (effects.length === 0) return null;
  return (
    <ul class="effects" aria-label="What it does">
      {effects.map(({ kind, target, replaces }) => (
        <li class={kind === 'delete' || replaces ? 'bad' : ''}>
          <span>{replaces ? 'replaces' : VERBS[kind]}</span> <code>{target}</code>
        </li>
      ))}
    </ul>
  );
}
