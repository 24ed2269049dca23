/** Draws charts as SVG without a library, readable on light and dark backgrounds. */

export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly label: string;
}

export interface Curve {
  readonly name: string;
  readonly x: string;
  readonly y: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** The text below its name. */
  readonly note: string;
  /** Whether both axes are logarithmic; otherwise both start at the minimum. */
  readonly log: boolean;
}

/** One image: bars below each other, stacked bars, or a sheet of plots. */
export type Picture = { readonly name: string; readonly title: string } & (
  | { readonly kind: 'bars' | 'stack'; readonly bars: readonly Bar[] }
  | { readonly kind: 'curves'; readonly curves: readonly Curve[] }
);

const WIDTH = 760;
const BLUE = '#3b82c4';
const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');

export function toSvg(picture: Picture): string {
  const title = escaped(picture.title);
  const { body, height } =
    picture.kind === 'curves' ? sheet(picture.curves) : rowsOf(picture.bars, picture.kind === 'stack');
  const style = 'font-family="system-ui, sans-serif" font-size="13" fill="#808080"';
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" ${style}>`;
  return `${head}<title>${title}</title><text x="8" y="22" font-size="15">${title}</text>${body}</svg>\n`;
}

const NAME_WIDTH = 300;
const LABEL_WIDTH = 130;
const ROW = 26;
const TOP = 40;

function rowsOf(bars: readonly Bar[], stacked: boolean): { body: string; height: number } {
  const values = bars.map((it) => Math.max(0, it.value));
  const most = stacked ? values.reduce((a, b) => a + b, 0) : Math.max(...values);
  const toX = (value: number) => Math.round((value / most) * (WIDTH - NAME_WIDTH - LABEL_WIDTH));
  let before = 0;
  const rows = bars.map(({ name, label }, at) => {
    const y = TOP + at * ROW;
    const from = NAME_WIDTH + (stacked ? toX(before) : 0);
    const width = Math.max(1, toX(values[at] as number));
    before += values[at] as number;
    return [
      `<text x="${NAME_WIDTH - 8}" y="${y + 15}" text-anchor="end">${escaped(name)}</text>`,
      `<rect x="${from}" y="${y + 2}" width="${width}" height="18" fill="${BLUE}"/>`,
      `<text x="${from + width + 6}" y="${y + 15}">${escaped(label)}</text>`,
    ].join('');
  });
  return { body: rows.join(''), height: TOP + bars.length * ROW + 10 };
}

const COLUMNS = 2;
const [CELL_WIDTH, CELL_HEIGHT] = [WIDTH / COLUMNS, 190];
const [PLOT_WIDTH, PLOT_HEIGHT] = [260, 90];

function sheet(curves: readonly Curve[]): { body: string; height: number } {
  const cells = curves.map((curve, at) => {
    const [x, y] = [(at % COLUMNS) * CELL_WIDTH, TOP + Math.floor(at / COLUMNS) * CELL_HEIGHT];
    return `<g transform="translate(${x} ${y})">${plot(curve)}</g>`;
  });
  return { body: cells.join(''), height: TOP + Math.ceil(curves.length / COLUMNS) * CELL_HEIGHT };
}

function plot({ name, note, points, x, y, log }: Curve): string {
  const scale = (values: number[], pixels: number) => {
    const all = log ? values.map(Math.log) : values;
    const [least, most] = [Math.min(...all), Math.max(...all)];
    // Keeps the noise of a flat curve from filling the plot.
    const range = Math.max(most - least, log ? Math.log(10) : Math.abs(most) / 2, Number.EPSILON);
    return (value: number) => (((log ? Math.log(value) : value) - least) / range) * pixels;
  };
  const toX = scale(
    points.map((it) => it[0]),
    PLOT_WIDTH,
  );
  const toY = scale(
    points.map((it) => it[1]),
    PLOT_HEIGHT,
  );
  const at = points.map(([px, py]) => [50 + toX(px), 40 + PLOT_HEIGHT - toY(py)].map(Math.round));
  const [first, last] = [points[0], points.at(-1)].map((it) => it as readonly [number, number]);
  const small = 'font-size="11"';
  return [
    `<text x="50" y="12">${escaped(name)}</text><text x="50" y="28" ${small}>${escaped(note)}</text>`,
    `<path d="M50 40V${40 + PLOT_HEIGHT}H${50 + PLOT_WIDTH}" fill="none" stroke="#808080"/>`,
    `<polyline points="${at.map((it) => it.join()).join(' ')}" fill="none" stroke="${BLUE}" stroke-width="1.5"/>`,
    ...(points.length <= 12 ? at.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="3" fill="${BLUE}"/>`) : []),
    `<text x="50" y="${56 + PLOT_HEIGHT}" ${small}>${short(first?.[0])}</text>`,
    `<text x="${50 + PLOT_WIDTH}" y="${56 + PLOT_HEIGHT}" ${small} text-anchor="end">${short(last?.[0])} ${escaped(x)}</text>`,
    `<text x="46" y="${(at.at(0)?.[1] ?? 0) + 4}" ${small} text-anchor="end">${short(first?.[1])}</text>`,
    `<text x="${54 + PLOT_WIDTH}" y="${(at.at(-1)?.[1] ?? 0) + 4}" ${small}>${short(last?.[1])} ${escaped(y)}</text>`,
  ].join('');
}

/** Formats a number with three digits and a magnitude suffix. */
export function short(value = Number.NaN): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 10_000) return `${Number((value / 1e3).toPrecision(3))}k`;
  return size >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}
