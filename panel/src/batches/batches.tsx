/** The batches of all sessions: those that run, and the newest of those that ended. */
import { useSignal } from '@preact/signals';
import { preciseDuration, timeOf } from '../clock.ts';
import { request } from '../connection.ts';
import type { Answer } from '../messages.ts';
import { useWatch } from './watch.ts';

export type ListedBatch = Answer<'batches.list'>['batches'][number];

export const batchHref = ({ batchId, sessionId }: Pick<ListedBatch, 'batchId' | 'sessionId'>): string =>
  `#/batches/${encodeURIComponent(batchId)}/${encodeURIComponent(sessionId)}`;

export function Batches() {
  const batches = useSignal<readonly ListedBatch[] | undefined>(undefined);
  useWatch(
    async () => {
      batches.value = (await request('batches.list')).batches;
    },
    { isOpen: () => true },
    [],
  );
  const all = batches.value;
  return (
    <>
      <div class="bar">
        <h1>Batches</h1>
      </div>
      <p class="dim">
        Calls that were sent together, each begun as soon as what it waits for has ended.{' '}
        <a href="#/compose">Compose</a> makes one.
      </p>
      {all?.length === 0 && <p>No batch has run since the daemon started.</p>}
      {all && all.length > 0 && (
        <section class="wide" tabIndex={0} aria-label="Batches">
          <table>
            <thead>
              <tr>
                {['Batch', 'State', 'Calls', 'Failed', 'Took', 'Began', 'Agent', 'Workspace'].map((it) => (
                  <th scope="col">{it}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {all.map((it) => (
                <tr key={`${it.sessionId} ${it.batchId} ${it.startedAt}`}>
                  <td>
                    <a href={batchHref(it)}>{it.batchId.slice(0, 40)}</a>
                  </td>
                  <td>{it.running ? 'running' : 'ended'}</td>
                  <td>
                    {it.endedCalls} of {it.totalCalls}
                  </td>
                  <td class={it.failedCalls > 0 ? 'bad' : ''}>{it.failedCalls}</td>
                  <td>{preciseDuration(it.durationMs)}</td>
                  <td>{timeOf(it.startedAt)}</td>
                  <td>{it.client || it.principal}</td>
                  <td>
                    <code>{it.workspace}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}
