/** The record: what was called, decided and changed; searched, checked and taken along as a file. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { callAddress } from '../calls/all-calls.ts';
import { request } from '../connection.ts';
import type { AuditEntry, Params } from '../messages.ts';
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
  const read = async (from?: string) => {
    try {
      const page = await request('audit.query', { ...filter.value, limit: PAGE, ...(from && { cursor: from }) });
      entries.value = from ? [...entries.value, ...page.entries] : page.entries;
      cursor.value = page.cursor;
      told.value = `${entries.value.length} entries${page.cursor ? ', and there are more' : ''}`;
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
        <output aria-live="polite">{told.value}</output>
        <button type="button" onClick={() => void verify()}>
          Verify
        </button>
        <button type="button" onClick={() => void save(filter.value)}>
          Export
        </button>
      </div>
      <form
        class="bar"
        onSubmit={(it) => {
          it.preventDefault();
          filter.value = filterOf(it.currentTarget);
          void read();
        }}
      >
        <label>
          Text <input type="search" name="text" maxLength={256} />
        </label>
        <label>
          Tool <input name="tool" maxLength={128} />
        </label>
        <label>
          Call <input name="callIdPart" maxLength={128} />
        </label>
        <Choice label="Kind" name="kind" options={KINDS.map((it) => [it, it])} />
        <Choice
          label="Outcome"
          name="outcome"
          options={[
            ['success', 'success'],
            ['failure', 'failure'],
            ['unknown', 'none: the daemon ended before it'],
          ]}
        />
        <Choice label="Since" name="since" options={SPANS.map((it) => [it, it])} />
        <button type="submit">Search</button>
      </form>
      <ul class="entries">
        {entries.value.map((it) => (
          <Entry key={it.seq} entry={it} open={open.value === it.seq} onToggle={(seq) => (open.value = seq)} />
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

interface EntryProps {
  readonly entry: AuditEntry;
  readonly open: boolean;
  readonly onToggle: (seq: number | undefined) => void;
}

function Entry({ entry, open, onToggle }: EntryProps) {
  const { seq, at, kind, tool, principal, decision, code, rule, callId, sessionId, outcome, detail } = entry;
  const event = typeof detail?.event === 'string' ? detail.event : '';
  return (
    <li class={code || outcome ? 'bad' : ''}>
      <button type="button" class="plain" aria-expanded={open} onClick={() => onToggle(open ? undefined : seq)}>
        {seq}
      </button>{' '}
      <span class="dim">{new Date(at).toLocaleString()}</span> {kind} {event} <strong>{tool}</strong> {decision}{' '}
      {rule && <code>{rule}</code>} {code} {outcome && 'no outcome: the daemon ended before it'}{' '}
      <span class="dim">{principal}</span> {callId && <a href={callAddress(callId, sessionId)}>call</a>}
      {open && <TextBlock label={`Entry ${seq}`}>{JSON.stringify(entry, null, 2)}</TextBlock>}
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
