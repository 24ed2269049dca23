/** The answers that the daemon remembers: what each covers, where, from whom and until when; and takes them back. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { coveredBy, heldIn, holdsUntil } from '../../../src/store/approvals/grant-words.ts';
import { timeOf } from '../clock.ts';
import { request } from '../connection.ts';
import { Table } from '../machine/table.tsx';
import type { Answer } from '../messages.ts';

const HEADS = ['Answer', 'Covers', 'Where', 'By', 'How long', 'Take back'];

export function Answers() {
  const grants = useSignal<Answer<'approvals.grants'>['grants'] | undefined>(undefined);
  const told = useSignal<string | undefined>(undefined);
  const load = async () => {
    grants.value = (await request('approvals.grants')).grants;
  };
  const revoke = async (which: { grantId: string } | { all: true }) => {
    try {
      await request('approvals.revoke', which);
      told.value = 'Revoked: the next such call asks again.';
      await load();
    } catch (error) {
      told.value = `That did not work: ${(error as Error).message}`;
    }
  };
  useEffect(() => {
    // A connection that is lost is told at the top of the page.
    load().catch(() => {});
  }, []);
  const all = grants.value ?? [];
  return (
    <>
      <div class="bar">
        <h1>Answers</h1>
      </div>
      {grants.value?.length === 0 && (
        <p class="empty">
          No answer is remembered. Choose in a question of the inbox what your answer covers, and it stands here.
        </p>
      )}
      <Table title="Remembered answers" heads={HEADS}>
        {all.map((it) => (
          <tr key={it.grantId}>
            <td>
              <span class={`decision ${it.decision === 'approve' ? 'allow' : 'deny'}`}>
                {it.decision === 'approve' ? 'yes' : 'no'}
              </span>
            </td>
            <td>{coveredBy(it)}</td>
            <td>{heldIn(it)}</td>
            <td>{it.by}</td>
            <td>{holdsUntil(it, (ms) => timeOf(new Date(ms).toISOString()))}</td>
            <td>
              <button type="button" onClick={() => void revoke({ grantId: it.grantId })}>
                Revoke
              </button>
            </td>
          </tr>
        ))}
      </Table>
      {all.length > 1 && (
        <button type="button" onClick={() => void revoke({ all: true })}>
          Revoke all
        </button>
      )}
      <output aria-live="polite">{told.value}</output>
    </>
  );
}
