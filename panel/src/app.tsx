/** The page around the views: where to go, and whether the daemon hears. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Calls } from './calls/calls.tsx';
import { duration } from './clock.ts';
import { link, signInProblem } from './connection.ts';
import { fleet } from './fleet/fleet-name.ts';
import { Inbox } from './inbox/inbox.tsx';
import { status } from './machine/status.ts';
import { pauseOrResume, Stop } from './machine/stop.tsx';
import { Command } from './parts/command.tsx';
import { Help } from './parts/help.tsx';
import { Icon, type IconName } from './parts/icon.tsx';
import { useKeys } from './parts/keys.ts';
import { lazy } from './parts/lazy.tsx';
import { waitingCount } from './questions.ts';

const Call = lazy(async () => (await import('./calls/call.tsx')).Call);
const Changes = lazy(async () => (await import('./changes/changes.tsx')).Changes);
const Agents = lazy(async () => (await import('./agents/agents.tsx')).Agents);
const Batches = lazy(async () => (await import('./batches/batches.tsx')).Batches);
const Batch = lazy(async () => (await import('./batches/batch.tsx')).Batch);
const Compose = lazy(async () => (await import('./compose/compose.tsx')).Compose);
const Audit = lazy(async () => (await import('./record/audit.tsx')).Audit);
const Policy = lazy(async () => (await import('./policy/policy.tsx')).Policy);
const Answers = lazy(async () => (await import('./inbox/answers.tsx')).Answers);
const Costs = lazy(async () => (await import('./record/costs.tsx')).Costs);
const Settings = lazy(async () => (await import('./settings/settings.tsx')).Settings);
const Nodes = lazy(async () => (await import('./fleet/nodes.tsx')).Nodes);
const Machine = lazy(async () => (await import('./machine/machine.tsx')).Machine);

const route = signal(location.hash);
addEventListener('hashchange', () => {
  route.value = location.hash;
  document.querySelector<HTMLElement>('main')?.focus();
});

interface View {
  readonly path: string;
  readonly name: string;
  readonly icon: IconName;
  view(id: string, session: string): ComponentChildren;
}

/** What the panel of a fleet shows. */
const FLEET_VIEWS: readonly View[] = [
  { path: '#/inbox', name: 'Inbox', icon: 'inbox', view: () => <Inbox /> },
  { path: '#/nodes', name: 'Nodes', icon: 'machine', view: () => <Nodes /> },
];

const VIEWS: readonly View[] = [
  { path: '#/inbox', name: 'Inbox', icon: 'inbox', view: () => <Inbox /> },
  {
    path: '#/calls',
    name: 'Calls',
    icon: 'calls',
    view: (id, session) => (id ? <Call callId={id} session={session || undefined} /> : <Calls />),
  },
  { path: '#/changes', name: 'Changes', icon: 'changes', view: () => <Changes /> },
  { path: '#/agents', name: 'Agents', icon: 'agents', view: () => <Agents /> },
  {
    path: '#/batches',
    name: 'Batches',
    icon: 'batches',
    view: (id: string, session: string) => (id ? <Batch batchId={id} session={session || undefined} /> : <Batches />),
  },
  { path: '#/compose', name: 'Compose', icon: 'plus', view: () => <Compose /> },
  { path: '#/audit', name: 'Audit', icon: 'page', view: () => <Audit /> },
  { path: '#/policy', name: 'Policy', icon: 'rules', view: () => <Policy /> },
  { path: '#/answers', name: 'Answers', icon: 'answers', view: () => <Answers /> },
  { path: '#/costs', name: 'Costs', icon: 'costs', view: () => <Costs /> },
  { path: '#/machine', name: 'Machine', icon: 'machine', view: () => <Machine /> },
  { path: '#/settings', name: 'Settings', icon: 'settings', view: () => <Settings /> },
  { path: '#/stop', name: 'Stop', icon: 'stop', view: () => <Stop /> },
];

/** A narrow screen shows this many views as tabs; the others are behind the tab `More`. */
const TABS_MAX = 4;
const MORE = '#/more';

export function App() {
  useKeys({ '.': () => void pauseOrResume() });
  if (link.value === 'signed out') return <SignedOut />;
  const views = fleet.value === undefined ? VIEWS : FLEET_VIEWS;
  const isMore = route.value.startsWith(MORE);
  const current = views.find((it) => route.value.startsWith(it.path)) ?? (views[0] as View);
  const path = isMore ? MORE : current.path;
  return (
    <>
      <nav class="side" aria-label="Views">
        <div class="brand">
          <Icon name="shield" />
          Ringfence{fleet.value !== undefined && `: fleet ${fleet.value}`}
        </div>
        <Links views={views} path={path} />
        <div class="state-of-all">
          <LinkState />
          {status.value && <Pause />}
        </div>
      </nav>
      <div class="page">
        <Notes />
        <main tabIndex={-1}>
          {isMore ? (
            <>
              <div class="bar">
                <h1>More</h1>
              </div>
              <div class="side all">
                <Links views={views.slice(TABS_MAX)} path={path} />
              </div>
            </>
          ) : (
            // A view asks the daemon when it is first shown, which needs the connection.
            link.value !== 'connecting' && current.view(partOf(route.value, 2), partOf(route.value, 3))
          )}
        </main>
      </div>
      <nav class="tabs" aria-label="Short ways">
        {views.slice(0, TABS_MAX).map((it) => (
          <Tab key={it.path} {...it} path={path} to={it.path} />
        ))}
        {views.length > TABS_MAX && (
          <Tab name="More" icon="more" to={MORE} path={views.indexOf(current) < TABS_MAX ? path : MORE} />
        )}
      </nav>
      <Help />
    </>
  );
}

const Links = ({ views, path }: { views: readonly View[]; path: string }) =>
  views.map((it) => (
    <a key={it.path} href={it.path} aria-current={path === it.path ? 'page' : undefined}>
      <Icon name={it.icon} />
      {it.name}
      {it.path === '#/inbox' && waitingCount.value > 0 && <span class="count">{waitingCount.value}</span>}
    </a>
  ));

const Tab = ({ name, icon, to, path }: { name: string; icon: IconName; to: string; path: string }) => (
  <a href={to} aria-current={path === to ? 'page' : undefined}>
    <Icon name={icon} />
    <span>
      {name}
      {to === '#/inbox' && waitingCount.value > 0 && ` ${waitingCount.value}`}
    </span>
  </a>
);

/** Lets no call begin, or lets them begin again. */
function Pause() {
  const { paused } = status.value ?? {};
  return (
    <button type="button" aria-keyshortcuts="." onClick={() => void pauseOrResume()}>
      {paused ? 'Resume' : 'Pause all'} <kbd>.</kbd>
    </button>
  );
}

/** What concerns all views: a lost daemon, a pause, a note on the policy. */
function Notes() {
  const { paused, policy } = status.value ?? {};
  if (link.value !== 'lost' && !paused && !policy?.note) return null;
  return (
    <aside class="notes" aria-label="Notes">
      {link.value === 'lost' && (
        <p class="link lost" role="status">
          The daemon does not answer, and what is shown may be old. This page connects again by itself. A daemon that
          was restarted has a new address: <Command>ringfence panel</Command>
        </p>
      )}
      {paused && (
        <p>
          Paused by {paused.by}: no call begins. <a href="#/stop">Resume</a>
        </p>
      )}
      {policy?.note && <p>{policy.note}</p>}
    </aside>
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
  const up = status.value && ` · up ${duration(status.value.uptimeMs)}`;
  return (
    <span class={`link ${link.value === 'open' ? 'open' : 'connecting'}`}>
      <output aria-live="polite">
        {link.value === 'open' ? 'connected' : link.value === 'connecting' ? 'connecting …' : 'not connected'}
      </output>
      {link.value === 'open' && up}
    </span>
  );
}

function SignedOut() {
  return (
    <main class="out">
      <h1>This page is not signed in</h1>
      {signInProblem.value && <p>{signInProblem.value}</p>}
      <p>
        Run <Command>ringfence panel</Command> on this machine, or <code>ringfence fleet panel</code> for a fleet: it
        opens the panel, or prints an address that works once.
      </p>
    </main>
  );
}
