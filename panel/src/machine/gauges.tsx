/** How busy the daemon is, how long calls take, and how much memory it holds, while this view is open. */
import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { bytes, preciseDuration, timeOf } from '../clock.ts';
import { request } from '../connection.ts';
import { Plot } from '../parts/plot.tsx';
import { callsPerSecond, type Families, percentileMs, type Reading, readingOf } from './rates.ts';

const MiB = 1024 * 1024;
const EVERY_MS = 2_000;
/** Readings that are kept: ten minutes. */
const KEPT = 300;
/** Readings over which percentiles are taken; of a single one they would jump. */
const WINDOW = 15;

const readings = signal<readonly Reading[]>([]);

async function read(): Promise<void> {
  const { families } = (await request('metrics.read', { format: 'json' })) as { families: Families };
  readings.value = [...readings.value, readingOf(families, Date.now())].slice(-KEPT);
}

/** Points of the plots; the first reading only begins the counting. */
const plotted = computed(() => {
  const all = readings.value;
  const points = all.slice(1).map((now, index) => {
    const start = all[Math.max(0, index + 1 - WINDOW)] as Reading;
    return {
      time: timeOf(new Date(now.atMs).toISOString()),
      rate: callsPerSecond(all[index] as Reading, now),
      p50: percentileMs(start, now, 0.5),
      p99: percentileMs(start, now, 0.99),
      // In MiB, so that the axis ends at a round number of them.
      gateway: now.gatewayBytes / MiB,
      hosts: now.hostBytes / MiB,
    };
  });
  const of = (name: 'rate' | 'p50' | 'p99' | 'gateway' | 'hosts') => points.map((it) => it[name]);
  return { times: points.map(({ time }) => time), of };
});

export function Gauges() {
  useEffect(() => {
    // A connection that is lost is told at the top of the page.
    const look = () => void (document.hidden || read().catch(() => {}));
    look();
    const timer = setInterval(look, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const { times, of } = plotted.value;
  if (times.length === 0) return <p class="dim">Measuring …</p>;
  return (
    <section class="plots" aria-label="Rates">
      <Plot
        title="Calls a second"
        kind="lines"
        times={times}
        series={[{ name: 'calls', values: of('rate') }]}
        format={(it) => (it >= 10 ? it.toFixed(0) : it.toFixed(1))}
      />
      <Plot
        title="Time of a call"
        kind="lines"
        times={times}
        series={[
          { name: 'p50', values: of('p50') },
          { name: 'p99', values: of('p99') },
        ]}
        format={preciseDuration}
      />
      <Plot
        title="Memory"
        kind="lines"
        times={times}
        series={[
          { name: 'gateway', values: of('gateway') },
          { name: 'hosts', values: of('hosts') },
        ]}
        format={(it) => bytes(it * MiB)}
      />
    </section>
  );
}
