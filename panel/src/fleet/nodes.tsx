/** The nodes of the fleet: which are there, what each does, and the orders that the operator's key signs for them. */
import { signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { FleetAnswers, FleetNode, OrderParams } from '../../../src/cli/fleet/panel/messages.ts';
import { bytes } from '../clock.ts';
import { requestFleet } from '../connection.ts';
import { HoldButton } from '../machine/stop.tsx';

const EVERY_MS = 1_000;

type Known = FleetAnswers['fleet.nodes'];

const known = signal<Known | undefined>(undefined);

async function look(): Promise<void> {
  known.value = await requestFleet('fleet.nodes');
}

export function Nodes() {
  const told = useSignal<readonly string[]>([]);
  useEffect(() => {
    const read = () => void look().catch(() => {}); // The connection is lost, which the page says already.
    read();
    const timer = setInterval(read, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const order = async (what: OrderParams['order'], nodes: readonly string[]) => {
    told.value = ['Sent; not confirmed yet.'];
    try {
      const answer = await requestFleet('fleet.order', { order: what, nodes });
      told.value = answer.told.map(({ node, done, problem }) => problem ?? `${node}: ${done}`);
      await look();
    } catch (error) {
      told.value = [`That did not work: ${(error as Error).message}`];
    }
  };
  const { nodes = [], problems = {} } = known.value ?? {};
  const names = nodes.map((it) => it.name);
  return (
    <>
      <div class="bar">
        <h1>Nodes</h1>
        <p aria-live="polite">
          {nodes.filter((it) => it.beat).length} of {nodes.length} are here
        </p>
        {names.length > 0 && (
          <>
            <HoldButton onHeld={() => void order('kill', names)}>Hold for a second to stop all nodes</HoldButton>
            <button type="button" onClick={() => void order('resume', names)}>
              Resume all
            </button>
          </>
        )}
      </div>
      <output class="told" aria-live="polite">
        {told.value.map((it) => (
          <p>{it}</p>
        ))}
      </output>
      {known.value && nodes.length === 0 && <p>No machine has joined: ringfence fleet invite NAME</p>}
      {nodes.map((it) => (
        <Card key={it.name} node={it} problem={problems[it.name]} order={(what) => void order(what, [it.name])} />
      ))}
      <p class="dim">
        An order holds for two minutes and is not kept for a node that is away. The same:{' '}
        <code>ringfence fleet kill</code>, <code>pause</code>, <code>resume</code>, <code>drain</code>.
      </p>
    </>
  );
}

interface CardProps {
  readonly node: FleetNode;
  /** Why its questions are not known. */
  readonly problem: string | undefined;
  order(what: OrderParams['order']): void;
}

function Card({ node: { name, labels, beat }, problem, order }: CardProps) {
  const button = (what: OrderParams['order'], text: string) => (
    <button type="button" aria-label={`${text} ${name}`} onClick={() => order(what)}>
      {text}
    </button>
  );
  return (
    <article class="card" aria-labelledby={`node-${name}`}>
      <header>
        <h2 id={`node-${name}`}>{name}</h2>
        <State beat={beat} />
        {labels.length > 0 && <span class="dim">{labels.join(', ')}</span>}
      </header>
      {beat && (
        <p>
          {beat.sessions} sessions, {beat.running} calls, {beat.queued} queued, {beat.questions} questions; load{' '}
          {beat.load.toFixed(2)}, {bytes(beat.freeMemory)} free
          <span class="dim">, Ringfence {beat.version}</span>
        </p>
      )}
      {beat?.obstacle !== undefined && <p class="bad">Takes no sessions: it {beat.obstacle}.</p>}
      {problem !== undefined && <p class="bad">Its questions are not shown: {problem}.</p>}
      <footer>
        {beat?.paused ? button('resume', 'Resume') : button('pause', 'Pause')}
        {beat?.draining ? button('undrain', 'Undrain') : button('drain', 'Drain')}
        <HoldButton onHeld={() => order('kill')}>Hold to stop {name}</HoldButton>
      </footer>
    </article>
  );
}

function State({ beat }: { beat: FleetNode['beat'] }) {
  if (!beat) return <strong class="bad">not heard</strong>;
  const notes = [beat.paused && 'paused', beat.draining && 'draining'].filter(Boolean);
  return notes.length > 0 ? <strong class="bad">{notes.join(', ')}</strong> : <span>ready</span>;
}
