/** The daemon and what it holds: sessions, hosts, walls, services. */
import { bytes, duration, preciseDuration } from '../clock.ts';
import { Gauges } from './gauges.tsx';
import { TierLimits } from './limits.tsx';
import { SessionRows } from './sessions.tsx';
import { type Status, status } from './status.ts';
import { Table } from './table.tsx';

export function Machine() {
  const it = status.value;
  if (!it) return <p>Asking the daemon …</p>;
  const { calls, confinement, disk, policy, audit, cache, undo } = it;
  const facts: [string, string][] = [
    ['Version', `${it.version}, process ${it.pid}, up ${duration(it.uptimeMs)}`],
    ['Memory', `${bytes(it.rssBytes)} in the daemon, ${bytes(sum(it.hosts.map((host) => host.rssBytes)))} in hosts`],
    ['Calls', `${calls.running} running, ${calls.queued} queued, ${calls.blocked} waiting for a person`],
    ['People', `${it.approvers} listening for questions`],
    [
      'Policy',
      policy
        ? `${policy.name}, ${policy.rules} rules, from ${policy.from}${policy.note ? `: ${policy.note}` : ''}`
        : 'not told',
    ],
    ['Record', `${audit.entries} entries${audit.writable ? '' : ', and it can not be written'}`],
    ['Undo', `${undo.calls} calls, ${bytes(undo.bytes)}`],
    ['Cache', describeCache(cache)],
    ['Disk', `${bytes(disk.freeBytes)} free${disk.advice ? `: ${disk.advice}` : ''}`],
    ['Listening at', it.listeners.join(', ')],
  ];
  return (
    <>
      <div class="bar">
        <h1>Machine</h1>
      </div>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
      <Gauges />
      <Walls confinement={confinement} />
      <Table title="Sessions" heads={['Client', 'Principal', 'Role', 'Workspace', 'Calls']}>
        {[<SessionRows key="all" sessions={it.openSessions ?? []} />]}
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
      <Table title="Programs of yours that run what agents change at once" heads={['Program', 'Process', 'Workspace']}>
        {(it.outsidePrograms ?? []).map(({ program, pid, workspace }) => (
          <tr key={`${pid} ${workspace}`}>
            <td>{program}</td>
            <td>{pid}</td>
            <td>
              <code>{workspace}</code>
            </td>
          </tr>
        ))}
      </Table>
      <TierLimits />
      <Services title="Providers" all={it.providers ?? []} />
      <Services title="Connectors" all={it.connectors ?? []} />
      <Services title="Plugins" all={it.plugins as unknown as Status['connectors'] & object} />
    </>
  );
}

const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);

function describeCache(cache: object): string {
  const counts = Object.entries(cache).filter(([, value]) => typeof value === 'number') as [string, number][];
  return counts.map(([name, it]) => (name === 'bytes' ? bytes(it) : `${it} ${name}`)).join(', ') || 'empty';
}

function Walls({ confinement: { level, backend, cgroup, missing, probes, gaps } }: Pick<Status, 'confinement'>) {
  return (
    <section>
      <h2>Confinement</h2>
      <p>
        Level {level}, by {backend}, control groups {cgroup}.{' '}
        {gaps.length === 0
          ? `All ${Object.keys(probes).length} walls that were tried at the start hold.`
          : `${gaps.length} of ${Object.keys(probes).length} walls do not hold; \`ringfence doctor\` tries them again.`}
      </p>
      <ul>
        {missing
          .filter((it) => !gaps.some(({ id }) => id === it))
          .map((it) => (
            <li class="warn">
              missing: {it}. <code>ringfence doctor</code> says what that means here, and what mends it.
            </li>
          ))}
        {gaps.map(({ id, shows, fix }) => (
          <li>
            <strong class="warn">
              {id}: {probes[id]}
            </strong>{' '}
            Not shown: {shows} {fix}
          </li>
        ))}
      </ul>
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
