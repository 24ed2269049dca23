/** What calls have cost, by day, tool and principal, beside the limits of the policy, and how many there were. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { preciseDuration } from '../clock.ts';
import { request } from '../connection.ts';
import type { Answer } from '../messages.ts';
import { Plot } from '../parts/plot.tsx';

type CostsAnswer = Answer<'costs.read'>;

const usd = (amount: number): string => `$${amount.toFixed(amount < 1 ? 4 : 2)}`;

const DAYS = 30;
const DAY_MS = 86_400_000;

/** The last days, oldest first, as the daemon names them. */
const lastDays = (nowMs: number): string[] =>
  Array.from({ length: DAYS }, (_, at) => new Date(nowMs - (DAYS - 1 - at) * DAY_MS).toISOString().slice(0, 10));

export function Costs() {
  const costs = useSignal<CostsAnswer | undefined>(undefined);
  const calls = useSignal<Answer<'audit.daily'>['days']>([]);
  useEffect(() => {
    // A connection that is lost is told at the top of the page.
    Promise.all([request('costs.read', { days: DAYS }), request('audit.daily', { days: DAYS })]).then(
      ([spent, { days }]) => {
        calls.value = days;
        costs.value = spent;
      },
      () => {},
    );
  }, []);
  const it = costs.value;
  if (!it)
    return (
      <div class="bar">
        <h1>Costs</h1>
      </div>
    );
  const days = lastDays(Date.now());
  const byDay = Map.groupBy(it.costs, ({ day }) => day);
  const spent = days.map((day) => (byDay.get(day) ?? []).reduce((sum, row) => sum + row.usd, 0));
  const counted = new Map(calls.value.map((day) => [day.day, day]));
  const countsOf = (of: (day: (typeof calls.value)[number]) => number) =>
    days.map((day) => {
      const found = counted.get(day);
      return found ? of(found) : 0;
    });
  return (
    <>
      <div class="bar">
        <h1>Costs</h1>
      </div>
      {it.costs.length === 0 && <p class="empty">No call has cost anything in the last {DAYS} days.</p>}
      <section class="plots" aria-label="By day">
        {it.costs.length > 0 && (
          <Plot title="Cost a day" kind="bars" times={days} series={[{ name: 'cost', values: spent }]} format={usd} />
        )}
        <Plot
          title="Calls a day"
          kind="bars"
          times={days}
          series={[
            { name: 'succeeded', values: countsOf((day) => day.calls - day.failed - day.refused) },
            { name: 'failed', tone: 'bad', values: countsOf((day) => day.failed) },
            { name: 'refused', values: countsOf((day) => day.refused) },
          ]}
          format={(value) => String(Math.round(value))}
        />
        <Plot
          title="Mean time of a call"
          kind="bars"
          times={days}
          series={[{ name: 'mean', values: days.map((day) => counted.get(day)?.meanMs) }]}
          format={preciseDuration}
        />
      </section>
      <Limits today={it.today} />
      {it.costs.length > 0 && (
        <section class="wide" tabIndex={0} aria-label="Costs by tool and principal">
          <table>
            <thead>
              <tr>
                {['Day', 'Tool', 'Principal', 'Calls', 'Cost'].map((head) => (
                  <th scope="col">{head}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {it.costs.map((row) => (
                <tr>
                  <td>{row.day}</td>
                  <td>{row.tool}</td>
                  <td>{row.principal}</td>
                  <td>{row.calls}</td>
                  <td>{usd(row.usd)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

function Limits({ today }: Pick<CostsAnswer, 'today'>) {
  return (
    <ul>
      {today.map(({ tier, usd: spent, askAboveUsd, mostUsd, mostUsdPerPrincipal }) => (
        <li>
          {tier} today: {usd(spent)}
          {askAboveUsd !== undefined && `, asks above ${usd(askAboveUsd)}`}
          {mostUsd !== undefined && `, at most ${usd(mostUsd)}`}
          {mostUsdPerPrincipal !== undefined && `, at most ${usd(mostUsdPerPrincipal)} a principal`}
        </li>
      ))}
    </ul>
  );
}
