/** Back to a named point of a workspace. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { timeOf } from '../clock.ts';
import { requestIn } from '../connection.ts';
import type { Answer } from '../messages.ts';

interface Point {
  readonly workspace: string;
  readonly checkpoint: Answer<'checkpoints.list'>['checkpoints'][number];
}

export function Checkpoints({ workspaces, onReturn }: { workspaces: readonly string[]; onReturn: () => void }) {
  const points = useSignal<readonly Point[]>([]);
  const chosen = useSignal<Point | undefined>(undefined);
  const told = useSignal<string | undefined>(undefined);
  useEffect(() => {
    const read = async () => {
      const found: Point[] = [];
      for (const workspace of workspaces) {
        const { checkpoints } = await requestIn(workspace, 'checkpoints.list', {});
        for (const checkpoint of checkpoints) found.push({ workspace, checkpoint });
      }
      points.value = found;
    };
    void read().catch(() => {}); // The connection is lost, which the page says already.
  }, [workspaces.join()]);
  const point = chosen.value;
  const back = async ({ workspace, checkpoint: { name } }: Point) => {
    try {
      const { calls, conflicts, error } = await requestIn(workspace, 'checkpoints.return', { name });
      told.value =
        error?.message ??
        (conflicts.length > 0 ? `Changed since: ${conflicts.join(', ')}` : `Undid ${calls.length} calls.`);
      chosen.value = undefined;
      onReturn();
    } catch (failure) {
      told.value = `That did not work: ${(failure as Error).message}`;
    }
  };
  return (
    <>
      <output aria-live="polite">{told.value}</output>
      {points.value.length > 0 && (
        <select
          aria-label="Back to a checkpoint"
          value=""
          onChange={({ currentTarget: it }) => (chosen.value = points.value[Number(it.value)])}
        >
          <option value="">Back to checkpoint…</option>
          {points.value.map(({ checkpoint: { name, at, calls } }, index) => (
            <option value={String(index)}>
              {name}, {timeOf(at)}, {calls} calls since
            </option>
          ))}
        </select>
      )}
      {point && (
        <button type="button" class="no" onClick={() => void back(point)}>
          Undo {point.checkpoint.calls} calls since {point.checkpoint.name}
        </button>
      )}
    </>
  );
}
