/** What calls have cost, by day, tool and principal, beside the limits of the policy. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { request } from '../connection.ts';
import type { Answer } from '../messages.ts';

type CostsAnswer = Answer<'costs.read'>;

const usd = (amount: number): string => `$${amount.toFixed(amount < 1 ? 4 : 2)}`;

export function Costs() {
  const costs = useSignal<CostsAnswer | undefined>(undefined);
  useEffect(() => {
    // A connection that is lost is told at the top of the page.
    request('costs.read', { days: 30 }).then(
      (it) => (costs.value = it),
      () => {},
    );
  }, []);
  const it = costs.value;
  if (!it) return <h1>Costs</h1>;
  const byDay = Map.groupBy(it.costs, ({ day }) => day);
  const totals = [...byDay].map(([day, rows]) => ({ day, usd: rows.reduce((sum, row) => sum + row.usd, 0) }));
  const most = Math.max(...totals.map((total) => total.usd), 0);
  return (
    <>
      <h1>Costs</h1>
      {it.costs.length === 0 && <p>No call has cost anything in the last 30 days.</p>}
      <ul class="days" aria-label="Costs by day">
        {totals.map((total) => (
          <li>
            <span class="dim">{total.day}</span> <progress value={total.usd} max={most} aria-label={total.day} />{' '}
            {usd(total.usd)}
          </li>
        ))}
      </ul>
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
