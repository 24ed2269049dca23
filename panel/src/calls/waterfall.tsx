/** The stages of one call as a bar: where its time went. */
import { preciseDuration } from '../clock.ts';
import type { StageName } from '../messages.ts';
import { STAGE_WORDS } from './all-calls.ts';

type Times = Partial<Record<StageName, number>>;

const partsOf = (times: Times) =>
  (Object.keys(STAGE_WORDS) as StageName[]).map((name) => ({ name, ms: times[name] ?? 0 })).filter(({ ms }) => ms > 0);

/** `judged 0.4 ms, running 12 ms`. */
export const describeTimes = (times: Times): string =>
  partsOf(times)
    .map(({ name, ms }) => `${STAGE_WORDS[name]} ${preciseDuration(ms)}`)
    .join(', ');

export function Waterfall({ times }: { times: Times }) {
  const parts = partsOf(times);
  const total = parts.reduce((sum, it) => sum + it.ms, 0);
  let before = 0;
  return (
    <svg class="waterfall" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={describeTimes(times)}>
      <title>{describeTimes(times)}</title>
      {parts.map(({ name, ms }) => {
        const [x, width] = [(before / total) * 100, (ms / total) * 100];
        before += ms;
        return <rect class={`stage-${name}`} x={x} y={0} width={width} height={8} />;
      })}
    </svg>
  );
}

/** What the colours of the bars mean. */
export const Legend = () => (
  <span class="legend">
    {LEGEND.map(([name, words]) => (
      <span>
        <span class={`key stage-${name}`} /> {words}
      </span>
    ))}
  </span>
);

const LEGEND: readonly (readonly [StageName, string])[] = [
  ['queued', 'queued'],
  ['asking', 'waited for you'],
  ['starting', 'host'],
  ['running', 'ran'],
];

export function StageTable({ times }: { times: Times }) {
  return (
    <dl class="facts">
      {partsOf(times).map(({ name, ms }) => (
        <>
          <dt>
            <span class={`key stage-${name}`} /> {STAGE_WORDS[name]}
          </dt>
          <dd>{preciseDuration(ms)}</dd>
        </>
      ))}
    </dl>
  );
}
