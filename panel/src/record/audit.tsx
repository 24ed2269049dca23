/** The record: what was called, decided and changed; searched, checked and taken along as a file. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { callAddress } from '../calls/all-calls.ts';
import { State } from '../calls/state.tsx';
import { preciseDuration, timeOf } from '../clock.ts';
import { request } from '../connection.ts';
import type { AuditEntry, CallState, Params } from '../messages.ts';
import { Choice } from '../parts/choice.tsx';
import { saveFile } from '../parts/save-file.ts';
import { TextBlock } from '../parts/text-block.tsx';

const PAGE = 100;
/** Most entries of one file. */
const EXPORTED_MAX = 10_000;
const KINDS = ['session', 'intent', 'outcome', 'refusal', 'approval', 'policy'];
const SPANS = ['1h', '12h', '1d', '7d', '30d'];

const OUTCOMES: Readonly<Record<string, Filter>> = {
  success: { success: true },
  failure: { success: false },
  unknown: { unknown: true },
};

type Filter = Omit<Params<'audit.query'>, 'limit'>;

/** The form as a filter; empty fields filter nothing. */
function filterOf(form: HTMLFormElement): Filter {
  const fields = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ''));
  const { outcome, ...rest } = fields as Record<string, string>;
  return { ...rest, ...OUTCOMES[outcome ?? ''] } as Filter;
}

export function Audit() {
  const filter = useSignal<Filter>({});
  const entries = useSignal<readonly AuditEntry[]>([]);
  const cursor = useSignal<string | undefined>(undefined);
  const told = useSignal<string>('Reading the record …');
  const open = useSignal<number | undefined>(undefined);
  const isRaw = useSignal(false);
  const rows = isRaw.value ? entries.value.map((it) => [it]) : byCall(entries.value);
  const read = async (from?: string) => {
    try {
      const of = { ...filter.value, ...(!isRaw.value && { calls: true }) };
      const page = await request('audit.query', { ...of, limit: PAGE, ...(from && { cursor: from }) });
      entries.value = from ? [...entries.value, ...page.entries] : page.entries;
      cursor.value = page.cursor;
      const count = isRaw.value ? `${entries.value.length} entries` : `${byCall(entries.value).length} calls`;
      told.value = `${count}${page.cursor ? ', and there are more' : ''}`;
    } catch (error) {
      told.value = (error as Error).message;
    }
  };
  useEffect(() => void read(), []);
  const verify = async () => {
    told.value = 'Checking …';
    const { ok, entries: checked, firstBroken, reason } = await request('audit.verify');
    told.value = ok ? `The record is whole: ${checked} entries.` : `BROKEN at entry ${firstBroken}: ${reason}`;
  };
  return (
    <>
      <div class="bar">
        <h1>Audit</h1>
        <output class="dim" aria-live="polite">
          {told.value}
        </output>
        <div class="right">
          {[false, true].map((raw) => (
            <button
              key={String(raw)}
              type="button"
              class="chip"
              aria-pressed={isRaw.value === raw}
              onClick={() => {
                isRaw.value = raw;
                void read();
              }}
            >
              {raw ? 'all entries' : 'calls'}
            </button>
          ))}
          <button type="button" onClick={() => void verify()}>
            Verify
          </button>
          <button type="button" onClick={() => void save(filter.value)}>
            Export
          </button>
        </div>
      </div>
      <form
        class="bar"
        onSubmit={(it) => {
          it.preventDefault();
          filter.value = filterOf(it.currentTarget);
          void read();
        }}
      >
        <input
          class="search"
          type="search"
          name="text"
          aria-label="Text"
          placeholder="Search the record"
          maxLength={256}
        />
        <label>
          <span class="dim">Tool</span> <input name="tool" size={12} maxLength={128} />
        </label>
        <label>
          <span class="dim">Call</span> <input name="callIdPart" size={12} maxLength={128} />
        </label>
        {isRaw.value && <Choice label="Kind" name="kind" options={KINDS.map((it) => [it, it])} />}
        <Choice
          label="Outcome"
          name="outcome"
          options={[
            ['success', 'success'],
            ['failure', 'failure'],
            ['unknown', 'none: the daemon ended before it'],
          ]}
        />
        <Choice label="Since" any="any time" name="since" options={SPANS.map((it) => [it, it])} />
        <button type="submit">Search</button>
      </form>
      <ul class="entries">
        {rows.map(([it, ...earlier]) => (
          <Entry
            key={it.seq}
            entry={it}
            earlier={earlier}
            isRaw={isRaw.value}
            open={open.value === it.seq}
            onToggle={(seq) => (open.value = seq)}
          />
        ))}
      </ul>
      {cursor.value && (
        <button type="button" onClick={() => void read(cursor.value)}>
          More
        </button>
      )}
    </>
  );
}

type Entries = readonly [newest: AuditEntry, ...earlier: AuditEntry[]];

/** The entries of each call together, the newest call and the newest entry first. */
const byCall = (entries: readonly AuditEntry[]): Entries[] => [
  ...(Map.groupBy(entries, ({ seq, sessionId, callId }) =>
    callId === undefined ? seq : `${sessionId} ${callId}`,
  ).values() as Iterable<[AuditEntry, ...AuditEntry[]]>),
];

interface EntryProps {
  readonly entry: AuditEntry;
  /** Entries of the same call before it. */
  readonly earlier: readonly AuditEntry[];
  readonly isRaw: boolean;
  readonly open: boolean;
  readonly onToggle: (seq: number | undefined) => void;
}

/** How an entry says that its call is. */
function stateOf({ kind, code, outcome }: AuditEntry): { status: CallState['status'] } {
  if (code !== undefined) return { status: 'error' };
  return { status: kind === 'intent' && outcome === undefined ? 'in-progress' : 'done' };
}

function Entry({ entry, earlier, isRaw, open, onToggle }: EntryProps) {
  const { seq, at, kind, tool, principal, decision, code, rule, callId, sessionId, outcome, detail, durationMs } =
    entry;
  const event = typeof detail?.event === 'string' ? detail.event : '';
  const effects = [entry, ...earlier].find((it) => it.effects?.length)?.effects ?? [];
  const isCall = kind === 'outcome' || kind === 'refusal' || kind === 'intent';
  return (
    <li>
      <div class="entry">
        <span class="dim" title={new Date(at).toLocaleString()}>
          {timeOf(at)}
        </span>
        {isRaw ? (
          <span class="dim">
            {kind} {code}
          </span>
        ) : isCall ? (
          <State call={{ state: stateOf(entry) as CallState, code }} />
        ) : (
          <span class="state waits">asked</span>
        )}
        <span class="what">
          <strong>{tool}</strong> {isRaw && event}{' '}
          <code>
            {effects
              .map(({ target }) => target)
              .join(', ')
              .slice(0, 300)}
          </code>{' '}
          {outcome && <span class="warn">no outcome: the daemon ended before it</span>}
        </span>
        <span class="dim">
          {decision} {rule}
        </span>
        <span class="dim">{principal}</span>
        <span class="dim time">{durationMs !== undefined && preciseDuration(durationMs)}</span>
        <span>
          {callId && <a href={callAddress(callId, sessionId)}>call</a>}{' '}
          <button
            type="button"
            class="plain"
            aria-expanded={open}
            aria-label={`Entry ${seq}`}
            onClick={() => onToggle(open ? undefined : seq)}
          >
            {seq}
          </button>
        </span>
      </div>
      {open &&
        [entry, ...earlier].map((it) => (
          <TextBlock key={it.seq} label={`Entry ${it.seq}`}>
            {JSON.stringify(it, null, 2)}
          </TextBlock>
        ))}
    </li>
  );
}

/** Saves the entries that the filter selects, newest first, as lines of JSON. */
async function save(filter: Filter): Promise<void> {
  const lines: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await request('audit.query', { ...filter, limit: 1000, ...(cursor && { cursor }) });
    for (const it of page.entries) lines.push(`${JSON.stringify(it)}\n`);
    cursor = page.cursor;
  } while (cursor && lines.length < EXPORTED_MAX);
  saveFile('ringfence-audit.jsonl', 'application/x-ndjson', lines);
}
