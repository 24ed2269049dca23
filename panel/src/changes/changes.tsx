/** What changed: files that the person's tools run or agents obey first, the diff beside the list, undo by call or to a checkpoint. */
import { signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { agentOf } from '../../../src/store/approvals/question-words.ts';
import { callAddress } from '../calls/all-calls.ts';
import { undo } from '../calls/undo.ts';
import { timeOf } from '../clock.ts';
import { request, requestIn } from '../connection.ts';
import { Diff } from '../parts/diff.tsx';
import { Icon } from '../parts/icon.tsx';
import { useKeys } from '../parts/keys.ts';
import { TextBlock } from '../parts/text-block.tsx';
import { Checkpoints } from './checkpoints.tsx';
import { type Changed, diffOf, type Kind, readChanges } from './known-changes.ts';

const GROUPS: readonly (readonly [Kind, string])[] = [
  ['run', 'Your tools run these'],
  ['obeyed', 'Agents obey these'],
  ['quarantine', 'In quarantine'],
  ['other', 'All other'],
];

const all = signal<readonly Changed[] | undefined>(undefined);
const chosen = signal<string | undefined>(undefined);
const isOpen = signal(false);

export function Changes() {
  const load = async () => {
    all.value = await readChanges();
  };
  useEffect(() => void load(), []);
  const files = GROUPS.flatMap(([kind]) => (all.value ?? []).filter((it) => it.kind === kind));
  const at = Math.max(
    0,
    files.findIndex(({ key }) => key === chosen.value),
  );
  const current = files[at];
  const move = (by: number) => {
    chosen.value = files[Math.min(files.length - 1, Math.max(0, at + by))]?.key;
  };
  useKeys({ j: () => move(1), k: () => move(-1) });
  const workspaces = [...new Set(files.map(({ workspace }) => workspace))];
  return (
    <>
      <div class="bar">
        <h1>Changes</h1>
        <p class="dim" aria-live="polite">
          {all.value === undefined
            ? 'Reading …'
            : `${files.length} files by ${new Set(files.map(({ callId }) => callId)).size} calls`}
        </p>
        <div class="right">
          <button type="button" onClick={() => void load()}>
            Read again
          </button>
          <Checkpoints workspaces={workspaces} onReturn={() => void load()} />
        </div>
      </div>
      {all.value !== undefined && !current && (
        <p class="empty">
          No call that is still kept has changed a file. What agents change stands here, with a way back; to name a
          point to come back to: <code>ringfence checkpoint NAME</code>.
        </p>
      )}
      {current && (
        <div class={`panes flush ${isOpen.value ? 'open' : ''}`}>
          <div class="list">
            {GROUPS.map(([kind, title]) => (
              <Group
                key={kind}
                title={title}
                files={files.filter((it) => it.kind === kind)}
                current={current}
                hasSeveral={workspaces.length > 1}
              />
            ))}
          </div>
          <div class="read">
            <button type="button" class="back" onClick={() => (isOpen.value = false)}>
              ‹ Changes
            </button>
            <File key={current.key} file={current} onChange={() => void load()} />
          </div>
        </div>
      )}
    </>
  );
}

const nameOf = (path: string): string => path.split('/').at(-1) ?? path;

interface GroupProps {
  readonly title: string;
  readonly files: readonly Changed[];
  readonly current: Changed;
  readonly hasSeveral: boolean;
}

function Group({ title, files, current, hasSeveral }: GroupProps) {
  if (files.length === 0) return null;
  return (
    <>
      <h2>{title}</h2>
      <ul aria-label={title}>
        {files.map((it) => (
          <li key={it.key}>
            <button
              type="button"
              class="item file"
              aria-current={it === current}
              onClick={() => {
                chosen.value = it.key;
                isOpen.value = true;
              }}
            >
              <span class={it.how === 'A' ? 'dim' : 'warn'}>{it.how}</span>
              <b title={it.path}>{it.path}</b>
              <span class="left">{hasSeveral && nameOf(it.workspace)}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

const BACK = {
  full: 'Can be undone: this call alone, or everything since a checkpoint.',
  partial: 'A part of the call can be undone.',
  none: 'The call cannot be undone.',
} as const;

function File({ file, onChange }: { file: Changed; onChange: () => void }) {
  const { path, kind, by, callId, call, result, workspace } = file;
  const told = useSignal<string | undefined>(undefined);
  const conflicts = useSignal<readonly string[]>([]);
  const written = useSignal<string | undefined>(undefined);
  const diff = diffOf(file);
  useEffect(() => {
    if (diff !== undefined) return;
    request('audit.query', { callId, session: call?.sessionId, limit: 10 }).then(
      ({ entries }) => {
        const { content } = (entries.find(({ input }) => input)?.input ?? {}) as { content?: unknown };
        if (typeof content === 'string') written.value = content;
      },
      () => {}, // The connection is lost, which the page says already.
    );
  }, []);
  const back = result?.metadata.undo ?? 'none';
  const act = async (work: () => Promise<string>) => {
    try {
      told.value = await work();
      onChange();
    } catch (error) {
      told.value = `That did not work: ${(error as Error).message}`;
    }
  };
  const take = (force: boolean) =>
    act(async () => {
      const answer = await undo({ callId, session: call?.sessionId, workspace }, force);
      conflicts.value = force ? [] : answer.conflicts;
      if (answer.error) return answer.error.message;
      return conflicts.value.length > 0
        ? `Changed since: ${answer.conflicts.join(', ')}`
        : `Undone: ${answer.restored.join(', ')}`;
    });
  const decide = (what: 'keep' | 'drop') =>
    act(async () => {
      const { done, errors } = await requestIn(workspace, 'session.quarantine', { [what]: [path] });
      return errors[0]?.message ?? `${what === 'keep' ? 'Put back' : 'Removed'} ${done.join(', ')}`;
    });
  useKeys(back === 'none' ? {} : { u: () => void take(false) });
  return (
    <>
      <header>
        <h2>
          <code>{path}</code>
        </h2>
        <p class="dim">
          {call && (
            <>
              by <code>{(call.summary || call.tool).slice(0, 120)}</code>, {agentOf(call)}, {timeOf(call.createdAt)}
            </>
          )}
          {by !== undefined && ` · ${by}`}
        </p>
      </header>
      {diff !== undefined ? (
        <Diff text={diff} label="Changes" />
      ) : written.value !== undefined ? (
        <TextBlock label="Text that was written">{written.value}</TextBlock>
      ) : (
        <p class="dim">
          A command changed it, and what it looked like before is only in the journal: <code>git diff {path}</code>{' '}
          shows it.
        </p>
      )}
      <ul class="points">
        <li>
          <Icon name="undo" />
          <span>{kind === 'quarantine' ? 'It was moved out of the workspace, and waits for you.' : BACK[back]}</span>
        </li>
      </ul>
      <footer class="answers">
        {kind === 'quarantine' && (
          <>
            <button type="button" class="yes" onClick={() => void decide('keep')}>
              Put it back
            </button>
            <button type="button" class="no" onClick={() => void decide('drop')}>
              Remove it
            </button>
          </>
        )}
        {back !== 'none' && (
          <button type="button" onClick={() => void take(false)}>
            Undo this call <kbd>u</kbd>
          </button>
        )}
        {conflicts.value.length > 0 && (
          <button type="button" class="no" onClick={() => void take(true)}>
            Undo all the same
          </button>
        )}
        <a class="button" href={callAddress(callId, call?.sessionId)}>
          Open the call
        </a>
        <output aria-live="polite">{told.value}</output>
      </footer>
    </>
  );
}
