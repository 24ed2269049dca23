/** The page around the views: where to go, and whether the daemon hears. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Calls } from './calls/calls.tsx';
import { link } from './connection.ts';
import { fleet } from './fleet/fleet-name.ts';
import { Inbox } from './inbox/inbox.tsx';
import { status } from './machine/status.ts';
import { Stop } from './machine/stop.tsx';
import { lazy } from './parts/lazy.tsx';
import { waitingCount } from './questions.ts';

const Call = lazy(async () => (await import('./calls/call.tsx')).Call);
const Batches = lazy(async () => (await import('./batches/batches.tsx')).Batches);
const Batch = lazy(async () => (await import('./batches/batch.tsx')).Batch);
const Compose = lazy(async () => (await import('./compose/compose.tsx')).Compose);
const Audit = lazy(async () => (await import('./record/audit.tsx')).Audit);
const Policy = lazy(async () => (await import('./policy/policy.tsx')).Policy);
const Answers = lazy(async () => (await import('./inbox/answers.tsx')).Answers);
const Costs = lazy(async () => (await import('./record/costs.tsx')).Costs);
const Nodes = lazy(async () => (await import('./fleet/nodes.tsx')).Nodes);
const Machine = lazy(async () => (await import('./machine/machine.tsx')).Machine);

const route = signal(location.hash);
addEventListener('hashchange', () => {
  route.value = location.hash;
  document.querySelector<HTMLElement>('main')?.focus();
});

/** Why this page could not sign in, if it could not. */
export const signInProblem = signal<string | undefined>(undefined);

interface View {
  readonly path: string;
  readonly name: string;
  view(id: string, session: string): ComponentChildren;
}

/** What the panel of a fleet shows. */
const FLEET_VIEWS: readonly View[] = [
  { path: '#/inbox', name: 'Inbox', view: () => <Inbox /> },
  { path: '#/nodes', name: 'Nodes', view: () => <Nodes /> },
];

const VIEWS: readonly View[] = [
  { path: '#/inbox', name: 'Inbox', view: () => <Inbox /> },
  {
    path: '#/calls',
    name: 'Calls',
    view: (id, session) => (id ? <Call callId={id} session={session || undefined} /> : <Calls />),
  },
  {
    path: '#/batches',
    name: 'Batches',
    view: (id: string, session: string) => (id ? <Batch batchId={id} session={session || undefined} /> : <Batches />),
  },
  { path: '#/compose', name: 'Compose', view: () => <Compose /> },
  { path: '#/audit', name: 'Audit', view: () => <Audit /> },
  { path: '#/policy', name: 'Policy', view: () => <Policy /> },
  { path: '#/answers', name: 'Answers', view: () => <Answers /> },
  { path: '#/costs', name: 'Costs', view: () => <Costs /> },
  { path: '#/machine', name: 'Machine', view: () => <Machine /> },
  { path: '#/stop', name: 'Stop', view: () => <Stop /> },
];

export function App() {
  if (link.value === 'signed out') return <SignedOut />;
  const views = fleet.value === undefined ? VIEWS : FLEET_VIEWS;
  const current = views.find((it) => route.value.startsWith(it.path)) ?? (views[0] as View);
  return (
    <>
      <header class="top">
        <strong>Ringfence{fleet.value !== undefined && `: fleet ${fleet.value}`}</strong>
        <nav aria-label="Views">
          {views.map(({ path, name }) => (
            <a href={path} aria-current={current.path === path ? 'page' : undefined}>
              {name}
              {path === '#/inbox' && waitingCount.value > 0 && <span class="count">{waitingCount.value}</span>}
            </a>
          ))}
        </nav>
        {status.value?.paused && (
          <a href="#/stop" class="bad">
            paused
          </a>
        )}
        <LinkState />
      </header>
      {status.value?.policy?.note && <p class="link lost">{status.value.policy.note}</p>}
      <main tabIndex={-1}>
        {/* A view asks the daemon when it is first shown, which needs the connection. */}
        {link.value !== 'connecting' && current.view(partOf(route.value, 2), partOf(route.value, 3))}
      </main>
    </>
  );
}

/** A part of the address behind the view: the id of a call. */
function partOf(hash: string, at: number): string {
  const part = hash.split('/')[at] ?? '';
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // A URIError: an address that was typed, with a `%` that encodes nothing.
  }
}

function LinkState() {
  return (
    <output class={`link ${link.value}`} aria-live="polite">
      {link.value === 'open' && 'connected'}
      {link.value === 'connecting' && 'connecting …'}
      {link.value === 'lost' && 'The daemon does not answer. What is shown may be old. Trying again …'}
    </output>
  );
}

function SignedOut() {
  return (
    <main class="out">
      <h1>This page is not signed in</h1>
      {signInProblem.value && <p>{signInProblem.value}</p>}
      <p>
        Run <code>ringfence panel</code> on this machine, or <code>ringfence fleet panel</code> for a fleet: it opens
        the panel, or prints an address that works once.
      </p>
    </main>
  );
}
