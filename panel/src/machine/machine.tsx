/** The daemon and what it holds: sessions, hosts, walls, services. */
import type { ComponentChildren } from 'preact';
import { bytes, duration, preciseDuration } from '../clock.ts';
import { type Status, status } from './status.ts';

export function Machine() {
  const it = status.value;
  if (!it) return <p>Asking the daemon …</p>;
  const { calls, confinement, disk, policy, audit, cache, undo } = it;
  const facts: [string, string][] = [
    ['Version', `${it.version}, process ${it.pid}, up ${duration(it.uptimeMs)}`],
    ['Memory', `${bytes(it.rssBytes)} in the daemon, ${bytes(sum(it.hosts.map((host) => host.rssBytes)))} in hosts`],
    ['Calls', `${calls.running} running, ${calls.queued} queued, ${calls.blocked} waiting for a person`],
    ['People', `${it.approvers} listening for questions`],
    ['Policy', policy ? `${policy.name}, ${policy.rules} rules, from ${policy.from}` : 'not told'],
    ['Record', `${audit.entries} entries${audit.writable ? '' : ', and it can not be written'}`],
    ['Undo', `${undo.calls} calls, ${bytes(undo.bytes)}`],
    ['Cache', describeCache(cache)],
    ['Disk', `${bytes(disk.freeBytes)} free${disk.advice ? `: ${disk.advice}` : ''}`],
    ['Listening at', it.listeners.join(', ')],
  ];
  return (
    <>
      <h1>Machine</h1>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
      <Walls confinement={confinement} />
      <Table title="Sessions" heads={['Client', 'Principal', 'Role', 'Workspace', 'Calls']}>
        {(it.openSessions ?? []).map(({ client, principal, role, workspace, calls: open, sessionId }) => (
          <tr key={sessionId}>
            <td>{client}</td>
            <td>{principal}</td>
            <td>{role}</td>
            <td>
              <code>{workspace}</code>
            </td>
            <td>{open}</td>
          </tr>
        ))}
      </Table>
      <Table title="Hosts" heads={['Tier', 'Process', 'Busy', 'Memory', 'CPU', 'Restarts', 'Workspace']}>
        {it.hosts.map(({ tier, pid, busy, threads, rssBytes, cpuMs, restarts, workspace }) => (
          <tr key={pid}>
            <td>{tier}</td>
            <td>{pid}</td>
            <td>
              {busy} of {threads}
            </td>
            <td>{bytes(rssBytes)}</td>
            <td>{preciseDuration(cpuMs)}</td>
            <td>{restarts}</td>
            <td>
              <code>{workspace}</code>
            </td>
          </tr>
        ))}
      </Table>
      <Services title="Providers" all={it.providers ?? []} />
      <Services title="Connectors" all={it.connectors ?? []} />
      <Services title="Plugins" all={it.plugins as unknown as Status['connectors'] & object} />
    </>
  );
}

const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);

function describeCache(cache: object): string {
  const counts = Object.entries(cache).filter(([, value]) => typeof value === 'number');
  return counts.map(([name, value]) => `${name} ${value}`).join(', ') || 'empty';
}

function Walls({ confinement: { level, backend, cgroup, missing, probes } }: Pick<Status, 'confinement'>) {
  const failing = Object.entries(probes).filter(([, is]) => is !== 'ok');
  return (
    <section>
      <h2>Confinement</h2>
      <p>
        Level {level}, by {backend}, control groups {cgroup}.{' '}
        {failing.length === 0 && missing.length === 0
          ? `All ${Object.keys(probes).length} walls that were tried at the start hold.`
          : 'Run `ringfence doctor`: it says how to mend what does not hold.'}
      </p>
      <ul>
        {missing.map((it) => (
          <li class="bad">missing: {it}</li>
        ))}
        {failing.map(([wall, is]) => (
          <li class="bad">
            {wall}: {is}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Table({ title, heads, children }: { title: string; heads: readonly string[]; children: ComponentChildren[] }) {
  if (children.length === 0) return null;
  return (
    <section class="wide" tabIndex={0} aria-label={title}>
      <h2>{title}</h2>
      <table>
        <thead>
          <tr>
            {heads.map((it) => (
              <th scope="col">{it}</th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}

function Services({
  title,
  all,
}: {
  title: string;
  all: readonly { name: string; state: string; problem?: string }[];
}) {
  return (
    <Table title={title} heads={['Name', 'State', 'Problem']}>
      {all.map(({ name, state, problem = '' }) => (
        <tr key={name}>
          <td>{name}</td>
          <td>{state}</td>
          <td>{problem}</td>
        </tr>
      ))}
    </Table>
  );
}
