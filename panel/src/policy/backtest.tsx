/** What a changed policy file would have decided otherwise of the calls on record, before it is in force. */
import { useSignal } from '@preact/signals';
import { RequestError, request } from '../connection.ts';
import type { Answer } from '../messages.ts';

type Backtest = Answer<'policy.backtest'>;

const SPANS = [
  ['1d', 'a day'],
  ['7d', 'a week'],
  ['30d', 'a month'],
  ['365d', 'a year'],
] as const;

export function BacktestForm() {
  const text = useSignal('');
  const since = useSignal('7d');
  const found = useSignal<Backtest | undefined>(undefined);
  const problems = useSignal<readonly string[]>([]);
  const isAsked = useSignal(false);
  const open = async ({ files }: HTMLInputElement) => {
    const [file] = files ?? [];
    if (file) text.value = await file.text();
  };
  const test = async () => {
    [isAsked.value, found.value, problems.value] = [true, undefined, []];
    try {
      found.value = await request('policy.backtest', { policy: text.value, since: since.value });
    } catch (error) {
      const told = error instanceof RequestError ? error.data.problems : undefined;
      problems.value = Array.isArray(told) ? told.map(String) : [(error as Error).message];
    }
    isAsked.value = false;
  };
  return (
    <section>
      <h2>What would another policy have decided?</h2>
      <form
        class="backtest"
        onSubmit={(it) => {
          it.preventDefault();
          void test();
        }}
      >
        <label class="words">
          Text of the policy file
          <textarea
            rows={6}
            spellcheck={false}
            required
            value={text.value}
            placeholder={'extends: default\nrules:\n  - …'}
            onInput={(it) => (text.value = it.currentTarget.value)}
          />
        </label>
        <div class="bar">
          <label>
            or its file <input type="file" onChange={(it) => void open(it.currentTarget)} />
          </label>
          <label>
            Calls of{' '}
            <select value={since.value} onChange={(it) => (since.value = it.currentTarget.value)}>
              {SPANS.map(([value, name]) => (
                <option value={value}>{name}</option>
              ))}
            </select>
          </label>
          <button type="submit" disabled={isAsked.value}>
            Back-test
          </button>
        </div>
      </form>
      <output aria-live="polite" class="tested">
        {isAsked.value && 'Deciding the calls on record again …'}
        {problems.value.map((it) => (
          <p class="failed">{it}</p>
        ))}
        {found.value && <Summary found={found.value} />}
      </output>
      {found.value && found.value.differences.length > 0 && <Differences all={found.value.differences} />}
    </section>
  );
}

function Summary({ found: { differences, calls, skipped, cut } }: { found: Backtest }) {
  return (
    <p>
      {differences.length === 0 ? 'No call' : `${differences.length} of ${calls} calls`} would have been decided
      otherwise{differences.length === 0 && ` of ${calls}`}.
      {skipped > 0 && ` ${skipped} could not be tried: their input is cut or redacted, or their tool is not known.`}
      {cut && ' There are more entries than are looked at.'}
    </p>
  );
}

function Differences({ all }: { all: Backtest['differences'] }) {
  return (
    <section class="wide" tabIndex={0} aria-label="Calls that would be decided otherwise">
      <table>
        <thead>
          <tr>
            {['Call', 'Was', 'Would be', 'What it did', 'By the rule', 'When'].map((it) => (
              <th scope="col">{it}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {all.map(({ at, tool, effects, old, new: fresh, rule, source }) => (
            <tr>
              <td>{tool}</td>
              <td class={`decision ${old}`}>{old}</td>
              <td class={`decision ${fresh}`}>{fresh}</td>
              <td>
                <code>{effects}</code>
              </td>
              <td title={source}>
                <code>{rule}</code>
              </td>
              <td class="dim">{new Date(at).toLocaleString()}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
