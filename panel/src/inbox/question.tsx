/** One question to a person: what happens, at most three facts, the command or the diff, the rest folded, the answers always in sight. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import {
  agentOf,
  type Choice,
  choicesOf,
  commandOf,
  type Fact,
  factsOf,
  folderOf,
  leftOf,
  restOf,
  titleOf,
} from '../../../src/store/approvals/question-words.ts';
import { duration, now } from '../clock.ts';
import { request } from '../connection.ts';
import { fleet, nodeOf } from '../fleet/fleet-name.ts';
import type { Approval, Effect, Whole } from '../messages.ts';
import { Diff } from '../parts/diff.tsx';
import { Icon, type IconName } from '../parts/icon.tsx';
import { useKeys } from '../parts/keys.ts';
import { TextBlock } from '../parts/text-block.tsx';
import { answer, sendings } from '../questions.ts';
import { useArmed } from './arming.ts';
import { approveLabel, ONCE, Remember, type Remembered, toRemember } from './remember.tsx';
import { Words } from './several.tsx';

export function Question({ approval }: { approval: Approval }) {
  const { approvalId, digest } = approval;
  const whole = useSignal<Whole | undefined>(undefined);
  const held = useSignal<Remembered>(ONCE);
  const words = useSignal('');
  const isUnfolded = useSignal(false);
  useEffect(() => {
    // A question that was settled meanwhile has no more to show, and goes.
    request('approvals.get', { approvalId }).then(
      (it) => (whole.value = it),
      () => {},
    );
  }, [digest]);
  const isArmed = useArmed(`${approvalId} ${digest}`);
  const sending = sendings.value.get(approvalId);
  // An input that is still being read can not be answered.
  const isReady = isArmed && sending?.is !== 'sent' && (!approval.truncated || whole.value !== undefined);
  const choices = choicesOf(approval).filter(({ key }) => fleet.value === undefined || key === 'y' || key === 'n');
  const send = ({ key, decision, remember }: Choice) => {
    if (!isReady) return;
    const feedback = decision === 'deny' ? words.value.trim() : '';
    const kept = key === 'y' ? toRemember(held.value, approval.rememberMaxMs) : remember;
    void answer(approval, { decision, ...(feedback && { feedback }), ...(kept && { remember: kept }) });
  };
  const keys = choices.map((it): [string, () => void] => [it.key, () => send(it)]);
  useKeys({ ...Object.fromEntries(keys), e: () => (isUnfolded.value = !isUnfolded.value) });
  return (
    <article data-approval={approvalId} aria-labelledby={`title-${approvalId}`}>
      <Head approval={approval} />
      <Facts facts={factsOf(approval)} />
      {fleet.value !== undefined && approval.truncated && (
        <p class="bad">All of it is too long for the fleet: answer it at {nodeOf(approvalId)}.</p>
      )}
      <What approval={approval} whole={whole.value} />
      <details open={isUnfolded.value} onToggle={(it) => (isUnfolded.value = it.currentTarget.open)}>
        <summary>
          Everything about the call: input, effects, rule, for how long <kbd class="keys">e</kbd>
        </summary>
        <Everything approval={approval} whole={whole.value} />
        <Remember approval={approval} whole={whole.value} chosen={held.value} onChoice={(it) => (held.value = it)} />
      </details>
      <footer class="answers">
        {choices.map((it) => (
          <button
            key={it.key}
            type="button"
            class={it.decision === 'deny' ? 'no' : it.key === 'y' ? 'yes' : ''}
            aria-disabled={!isReady}
            aria-keyshortcuts={it.key}
            onClick={() => send(it)}
          >
            {it.key === 'y' && held.value.match ? approveLabel(held.value) : nameOf(it)} <kbd>{it.key}</kbd>
          </button>
        ))}
        <Words value={words.value} onInput={(it) => (words.value = it)} />
        <output aria-live="polite">
          {sending?.is === 'sent' && `Sent your ${sending.decision === 'approve' ? 'yes' : 'no'}; not confirmed yet.`}
          {sending?.is === 'failed' && <strong class="failed">{sending.reason}</strong>}
        </output>
      </footer>
    </article>
  );
}

/** The words of a button. */
function nameOf({ key, label }: Choice): string {
  const names = {
    y: label === 'session' ? 'Allow for the session' : `Allow ${label}`,
    s: label,
    p: label,
    n: 'Deny',
    N: 'Deny for the session',
  };
  const name = names[key];
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** Letters of a command that a heading shows; a longer one has a block of its own. */
const HEADING_CHARS = 100;

const isLong = (command: string): boolean => command.length > HEADING_CHARS || command.includes('\n');

function Head({ approval }: { approval: Approval }) {
  const { approvalId, requestedAt, door, tool, workspace, cwd, parents } = approval;
  const { verb, before, heavy, after } = titleOf(approval);
  const isCommand = verb === '$';
  const short = isCommand && isLong(heavy) ? `${(heavy.split('\n')[0] as string).slice(0, HEADING_CHARS)}…` : heavy;
  const waits = door ? (commandOf(approval) ?? tool) : isCommand ? undefined : tool;
  return (
    <header>
      <h2 id={`title-${approvalId}`}>
        {verb && <span class="quiet">{verb} </span>}
        {before && <span class="quiet">{before}</span>}
        {isCommand ? <code>{short}</code> : short}
        {after && <span class="quiet">{after}</span>}
      </h2>
      <p class="dim">
        {waits !== undefined && (
          <>
            <code>{waits.length > HEADING_CHARS ? `${waits.slice(0, HEADING_CHARS)}…` : waits}</code> in{' '}
          </>
        )}
        <strong title={cwd === '.' ? workspace : `${workspace}/${cwd}`}>{folderOf(approval)}</strong> for{' '}
        {parents.map((it) => `${it.tool} › `).join('')}
        {agentOf(approval)}
        {fleet.value !== undefined && ` on ${nodeOf(approvalId)}`} · {duration(now.value - Date.parse(requestedAt))}{' '}
        ago, {leftOf(approval, now.value)}
      </p>
    </header>
  );
}

const SIGNS: Readonly<Record<Fact['kind'], IconName>> = { warn: 'warn', note: 'note', undo: 'undo', rule: 'rule' };

const Facts = ({ facts }: { facts: readonly Fact[] }) => (
  <ul class="points">
    {facts.map(({ kind, text }) => (
      <li class={kind}>
        <Icon name={SIGNS[kind]} />
        <span>{text.charAt(0).toUpperCase() + text.slice(1)}</span>
      </li>
    ))}
  </ul>
);

/** The command where the heading can't show it, what else was given, and the diff. */
function What({ approval, whole }: { approval: Approval; whole: Whole | undefined }) {
  const { input, diff } = whole?.whole ?? approval;
  const { diff: _, ...others } = approval;
  const asked = { ...others, input, ...(diff !== undefined && { diff }) };
  const command = commandOf(asked);
  const rest = Object.entries(restOf(asked));
  return (
    <>
      {command !== undefined && (approval.door || isLong(command)) && (
        <TextBlock label="Command" kind="command">
          {command}
        </TextBlock>
      )}
      {rest.length > 0 && (
        <TextBlock label="Parameters" kind="parameters">
          {rest
            .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
            .join('\n')}
        </TextBlock>
      )}
      {diff !== undefined && <Diff text={diff} label="Changes" />}
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

function Everything({ approval, whole }: { approval: Approval; whole: Whole | undefined }) {
  const { reason, rule, impact, client, principal, workspace, cwd, sessionId, tool, callId } = approval;
  const { input, effects } = whole?.whole ?? approval;
  return (
    <>
      <dl class="facts">
        <dt>Tool</dt>
        <dd>{tool}</dd>
        <dt>Rule</dt>
        <dd>
          <code>{rule}</code> {reason}
        </dd>
        <dt>Impact</dt>
        <dd>
          {impact.level}: {impact.description}
          <ul class="warnings">
            {impact.warnings.map((it) => (
              <li>{it}</li>
            ))}
          </ul>
        </dd>
        <dt>Effects</dt>
        <dd>
          <ul class="effects" aria-label="What it does">
            {effects.map(({ kind, target, replaces }) => (
              <li>
                <span>{replaces ? 'replaces' : VERBS[kind]}</span> <code>{target}</code>
              </li>
            ))}
          </ul>
        </dd>
        <dt>Folder</dt>
        <dd>
          <code>{cwd === '.' ? workspace : `${workspace}/${cwd}`}</code>
        </dd>
        <dt>Agent</dt>
        <dd>
          {client || principal} ({principal}, session {sessionId.slice(-8)}, call {callId.slice(-8)})
        </dd>
      </dl>
      <TextBlock label="Input">{JSON.stringify(input, null, 2)}</TextBlock>
    </>
  );
}
