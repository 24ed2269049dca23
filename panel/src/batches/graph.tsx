/** The calls of a batch as a graph: what waits for what, and the chain that decides how long all of it takes. */
import { type Edge, type GraphCall, layOut, type Place } from './layout.ts';

export interface ShownCall extends GraphCall {
  readonly tool: string;
  /** The class of its box. */
  readonly kind: string;
  /** Time of the call, as its box shows it. */
  readonly time: string;
}

const BOX = { width: 168, height: 46 };
const STEP = { x: 218, y: 62 };
const MARGIN = 8;
/** How far a line leaves a box before it turns. */
const BEND = 30;
/** Most calls that are drawn; of more, only the critical path is. */
const DRAWN_MAX = 150;
const ID_CHARS = 20;

interface GraphProps {
  readonly calls: readonly ShownCall[];
  readonly criticalPath: readonly string[];
}

export function Graph({ calls, criticalPath }: GraphProps) {
  const critical = new Set(criticalPath);
  const isWhole = calls.length <= DRAWN_MAX;
  const drawn = isWhole ? calls : calls.filter(({ id }) => critical.has(id)).slice(0, DRAWN_MAX);
  const { at, columns, rows, edges } = layOut(drawn);
  const nextOf = new Map(criticalPath.map((id, index) => [id, criticalPath[index + 1]]));
  const pointOf = ({ column, row }: Place) => ({ x: MARGIN + column * STEP.x, y: MARGIN + row * STEP.y });
  const placeOf = (id: string) => pointOf(at.get(id) as Place);
  const pathOf = ({ from, to, via }: Edge) => {
    let { x, y } = placeOf(from);
    [x, y] = [x + BOX.width, y + BOX.height / 2];
    let path = `M${x} ${y}`;
    for (const [index, next] of [...via.map(pointOf), placeOf(to)].entries()) {
      const middle = next.y + BOX.height / 2;
      path += `C${x + BEND} ${y} ${next.x - BEND} ${middle} ${next.x} ${middle}`;
      [x, y] = [next.x + BOX.width, middle];
      if (index < via.length) path += `L${x} ${y}`;
    }
    return path;
  };
  const width = Math.max(1, columns) * STEP.x - (STEP.x - BOX.width) + 2 * MARGIN;
  const height = Math.max(1, rows) * STEP.y - (STEP.y - BOX.height) + 2 * MARGIN;
  return (
    <section class="wide graph" tabIndex={0} aria-label="Graph of the calls">
      {!isWhole && <p class="dim">{calls.length} calls: only the critical path is drawn, the list has all.</p>}
      <svg width={width} height={height} role="img" aria-label={`Critical path: ${criticalPath.join(', ')}`}>
        {edges.map((it) => (
          <path
            key={`${it.from} ${it.to}`}
            class={nextOf.get(it.from) === it.to ? 'edge critical' : 'edge'}
            d={pathOf(it)}
          />
        ))}
        {drawn.map(({ id, tool, kind, time }) => {
          const { x, y } = placeOf(id);
          return (
            <g key={id} class={`box ${kind} ${critical.has(id) ? 'critical' : ''}`} transform={`translate(${x} ${y})`}>
              <title>{`${id}: ${tool}, ${time}`}</title>
              <rect width={BOX.width} height={BOX.height} rx={4} />
              <text x={8} y={19}>
                {id.length > ID_CHARS ? `${id.slice(0, ID_CHARS - 1)}…` : id}
              </text>
              <text class="small" x={8} y={37}>
                {time}
              </text>
            </g>
          );
        })}
      </svg>
    </section>
  );
}
