/**
 * Values over time as lines or bars. Drawn here and not by a library: it takes the colours of the page, also forced ones,
 * and its values can be read with the keyboard and by a screen reader.
 */
import { useSignal } from '@preact/signals';

export interface Series {
  readonly name: string;
  /** `bad` for what failed. */
  readonly tone?: 'bad';
  /** Undefined where nothing is known. */
  readonly values: readonly (number | undefined)[];
}

interface PlotProps {
  readonly title: string;
  readonly kind: 'lines' | 'bars';
  /** Labels of the time axis, one for each value of a series. */
  readonly times: readonly string[];
  /** At most three. Bars stand on each other. */
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
}

const SIZE = { width: 600, height: 150 };
const PLACE = { left: 88, top: 8, width: 504, height: 118 };
const GRID = [0, 0.5, 1];

export function Plot({ title, kind, times, series, format }: PlotProps) {
  const chosen = useSignal<number | undefined>(undefined);
  const count = times.length;
  if (count === 0) return null;
  if (kind === 'lines' && series.every(({ values }) => values.every((it) => !it)))
    return (
      <figure class="plot">
        <figcaption>
          <strong>{title}</strong> <span class="dim">nothing in this time</span>
        </figcaption>
      </figure>
    );
  const at = Math.min(chosen.value ?? count - 1, count - 1);
  const heights = times.map((_, index) => {
    const all = series.map(({ values }) => values[index] ?? 0);
    return kind === 'bars' ? all.reduce((sum, it) => sum + it, 0) : Math.max(...all);
  });
  const top = niceTop(Math.max(...heights));
  const step = PLACE.width / Math.max(1, kind === 'bars' ? count : count - 1);
  const xOf = (index: number) => PLACE.left + step * (kind === 'bars' ? index + 0.5 : index);
  const yOf = (value: number) => PLACE.top + PLACE.height * (1 - value / top);
  const told = (index: number) => series.map(({ name, values }) => `${name} ${format(values[index] ?? 0)}`).join(', ');
  const choose = (it: PointerEvent) => {
    const box = (it.currentTarget as Element).getBoundingClientRect();
    const x = ((it.clientX - box.left) / box.width) * SIZE.width;
    const index = (x - PLACE.left) / step - (kind === 'bars' ? 0.5 : 0);
    chosen.value = Math.min(count - 1, Math.max(0, Math.round(index)));
  };
  return (
    <figure class="plot">
      <figcaption>
        <strong>{title}</strong>{' '}
        <span class="dim">
          {times[at]}: {told(at)}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${SIZE.width} ${SIZE.height}`}
        role="img"
        aria-label={`${title}, the newest: ${told(count - 1)}; at most ${format(Math.max(...heights))}`}
        onPointerMove={choose}
        onPointerLeave={() => (chosen.value = undefined)}
      >
        {GRID.map((share) => (
          <g key={share} class="grid">
            <line x1={PLACE.left} x2={PLACE.left + PLACE.width} y1={yOf(top * share)} y2={yOf(top * share)} />
            <text x={PLACE.left - 6} y={yOf(top * share) + 4} text-anchor="end">
              {format(top * share)}
            </text>
          </g>
        ))}
        {kind === 'bars'
          ? times.map((time, index) => <Bars key={time} {...{ series, index, step, xOf, yOf }} />)
          : series.map(({ name, values, tone }, of) => (
              <path key={name} class={`line series-${tone ?? of}`} d={lineOf(values, xOf, yOf)} />
            ))}
        <line class="cursor" x1={xOf(at)} x2={xOf(at)} y1={PLACE.top} y2={PLACE.top + PLACE.height} />
        <text x={PLACE.left} y={SIZE.height - 6}>
          {times[0]}
        </text>
        <text x={PLACE.left + PLACE.width} y={SIZE.height - 6} text-anchor="end">
          {times[count - 1]}
        </text>
      </svg>
      {series.length > 1 && (
        <p class="dim">
          {series.map(({ name, tone }, of) => (
            <span>
              <span class={`key series-${tone ?? of}`} /> {name}{' '}
            </span>
          ))}
        </p>
      )}
      <input
        type="range"
        min={0}
        max={count - 1}
        value={at}
        aria-label={`Time in ${title}`}
        aria-valuetext={`${times[at]}: ${told(at)}`}
        onInput={(it) => (chosen.value = Number(it.currentTarget.value))}
      />
    </figure>
  );
}

interface BarsProps {
  readonly series: readonly Series[];
  readonly index: number;
  readonly step: number;
  xOf(index: number): number;
  yOf(value: number): number;
}

function Bars({ series, index, step, xOf, yOf }: BarsProps) {
  const width = Math.max(1, step * 0.7);
  let below = 0;
  return (
    <>
      {series.map(({ name, values, tone }, of) => {
        const value = values[index] ?? 0;
        const y = yOf(below + value);
        const height = yOf(below) - y;
        below += value;
        return (
          <rect
            key={name}
            class={`series-${tone ?? of}`}
            x={xOf(index) - width / 2}
            y={y}
            width={width}
            height={height}
          />
        );
      })}
    </>
  );
}

/** A line through the known values, with gaps where nothing is known. */
function lineOf(
  values: readonly (number | undefined)[],
  xOf: (index: number) => number,
  yOf: (value: number) => number,
): string {
  let isDown = false;
  return values
    .map((value, index) => {
      if (value === undefined) {
        isDown = false;
        return '';
      }
      const command = isDown ? 'L' : 'M';
      isDown = true;
      return `${command}${xOf(index).toFixed(1)} ${yOf(value).toFixed(1)}`;
    })
    .join('');
}

/** The next of 1, 2, 5, 10, 20 … that is not below the value. */
export function niceTop(value: number): number {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((it) => it * unit >= value) ?? 10) * unit;
}
