/** Switches a tool off, or sets how its calls are decided: the change of the policy file is shown before it is written. */
import { useSignal } from '@preact/signals';
import { request } from '../connection.ts';
import type { Answer } from '../messages.ts';
import { Diff } from '../parts/diff.tsx';

const LEVELS = {
  auto: 'auto: unasked',
  ask: 'ask: after a question',
  deny: 'deny: switched off',
  default: 'default: as the rest of the policy says',
} as const;

/** Names of tools are offered by the list `tools` of the page; one that is switched off is typed. */
export function LevelForm() {
  const [tool, level] = [useSignal('terminal_execute'), useSignal<keyof typeof LEVELS>('ask')];
  const shown = useSignal<Answer<'policy.set'> | undefined>(undefined);
  const problem = useSignal('');
  const set = async (seen?: string) => {
    try {
      shown.value = await request('policy.set', { tool: tool.value, level: level.value, ...(seen && { seen }) });
      problem.value = '';
    } catch (error) {
      [shown.value, problem.value] = [undefined, (error as Error).message];
    }
  };
  const it = shown.value;
  return (
    <section>
      <h2>How is a tool decided?</h2>
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault();
          void set();
        }}
      >
        <label>
          This tool{' '}
          <input
            list="tools"
            required
            value={tool.value}
            onInput={(event) => (tool.value = event.currentTarget.value)}
          />
        </label>
        <label>
          Level{' '}
          <select
            value={level.value}
            onChange={(event) => (level.value = event.currentTarget.value as keyof typeof LEVELS)}
          >
            {Object.entries(LEVELS).map(([value, name]) => (
              <option value={value}>{name}</option>
            ))}
          </select>
        </label>
        <button type="submit">Show the change</button>
      </form>
      <output aria-live="polite">
        {problem.value && <strong class="failed">{problem.value}</strong>}
        {it && !it.diff && <p>The policy file says so already.</p>}
        {it?.isWritten && (
          <p>
            Written to <code>{it.path}</code>
            {it.isInForce ? ', and in force.' : '; start the daemon anew to apply it.'}
          </p>
        )}
      </output>
      {it?.diff && <Diff label="The change of the policy file" text={it.diff} />}
      {it?.diff && !it.isWritten && (
        <button type="button" class="yes" onClick={() => void set(it.diff)}>
          Write it
        </button>
      )}
    </section>
  );
}
