// Horizontal bars as an SVG: a figure for people, without a library.

export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly label: string;
}

const WIDTH = 760;
const NAME_WIDTH = 300;
const LABEL_WIDTH = 110;
const ROW = 26;
const TOP = 40;

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');

/** Bars below one another, the longest over the whole width; readable on light and dark ground. */
export function toSvg(title: string, bars: readonly Bar[]): string {
  const most = Math.max(...bars.map((it) => it.value));
  const height = TOP + bars.length * ROW + 10;
  const rows = bars.map(({ name, value, label }, at) => {
    const y = TOP + at * ROW;
    const width = Math.max(1, Math.round((value / most) * (WIDTH - NAME_WIDTH - LABEL_WIDTH)));
    return [
      `<text x="${NAME_WIDTH - 8}" y="${y + 15}" text-anchor="end">${escaped(name)}</text>`,
      `<rect x="${NAME_WIDTH}" y="${y + 2}" width="${width}" height="18" fill="#3b82c4"/>`,
      `<text x="${NAME_WIDTH + width + 6}" y="${y + 15}">${escaped(label)}</text>`,
    ].join('');
  });
  const style = 'font-family="system-ui, sans-serif" font-size="13" fill="#808080"';
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" ${style}>`;
  return `${head}<title>${escaped(title)}</title><text x="8" y="22" font-size="15">${escaped(title)}</text>${rows.join('')}</svg>\n`;
}
