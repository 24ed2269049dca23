/** The policy in force, rule by rule with where each stands, and how it would decide a call. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { request, requestIn } from '../connection.ts';
import type { Answer } from '../messages.ts';
import { TextBlock } from '../parts/text-block.tsx';
import { BacktestForm } from './backtest.tsx';
import { LevelForm } from './level.tsx';

interface RuleFacts {
  readonly id: string;
  readonly decision: string;
  readonly reason: string;
  readonly source: string;
  readonly match?: unknown;
}

interface ShownPolicy {
  readonly name: string;
  readonly version: string;
  readonly tiers: Readonly<Record<string, RuleFacts & Readonly<Record<string, unknown>>>>;
  readonly rules: readonly RuleFacts[];
  readonly and: readonly ShownPolicy[];
}

export function Policy() {
  const policy = useSignal<ShownPolicy | undefined>(undefined);
  useEffect(() => {
    // A connection that is lost is told at the top of the page.
    request('policy.get').then(
      (it) => (policy.value = it as unknown as ShownPolicy),
      () => {},
    );
  }, []);
  return (
    <>
      <div class="bar">
        <h1>Policy</h1>
      </div>
      <Explain />
      <LevelForm />
      <BacktestForm />
      {policy.value && <Rules policy={policy.value} />}
      {policy.value?.and.map((it) => (
        <Rules policy={it} />
      ))}
    </>
  );
}

function Rules({ policy: { name, version, tiers, rules } }: { policy: ShownPolicy }) {
  return (
    <section>
      <h2>
        <code>{name}</code>
      </h2>
      <p class="dim">
        Version {version.slice(0, 19)}. Of all rules that match, the strictest decides; without one, the tier does.
      </p>
      <ul class="entries">
        {Object.entries(tiers).map(([tier, rule]) => (
          <Rule rule={rule} title={`tier ${tier}`} />
        ))}
        {rules.map((it) => (
          <Rule key={it.id} rule={it} title={it.id} />
        ))}
      </ul>
    </section>
  );
}

function Rule({ rule, title }: { rule: RuleFacts; title: string }) {
  return (
    <li>
      <details>
        <summary>
          <strong>{title}</strong> <span class={`decision ${rule.decision}`}>{rule.decision}</span> {rule.reason}
        </summary>
        <p class="dim">
          <code>{rule.source}</code>
        </p>
        <TextBlock label={title}>{JSON.stringify(rule, null, 2)}</TextBlock>
      </details>
    </li>
  );
}

type Explanation = Answer<'policy.explain'>;

/** Asks how a call would be decided, without making it. */
function Explain() {
  const explained = useSignal<Explanation | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const tools = useSignal<readonly string[]>([]);
  useEffect(() => {
    request('tools.list', { tools: 'all' }).then(
      (it) => (tools.value = it.tools.flatMap(({ name }) => name ?? [])),
      () => {}, // Without the list, names are typed.
    );
  }, []);
  const explain = async (form: HTMLFormElement) => {
    const { tool, input, workspace } = Object.fromEntries(new FormData(form)) as Record<string, string>;
    try {
      const params = { tool, input: parse(input ?? '') };
      explained.value = await (workspace
        ? requestIn(workspace, 'policy.explain', params)
        : request('policy.explain', params));
      problem.value = undefined;
    } catch (error) {
      explained.value = undefined;
      problem.value = (error as Error).message;
    }
  };
  return (
    <section>
      <h2>How would this call be decided?</h2>
      <form
        class="bar"
        onSubmit={(it) => {
          it.preventDefault();
          void explain(it.currentTarget);
        }}
      >
        <label>
          Tool <input name="tool" list="tools" value="terminal_execute" required />
        </label>
        <datalist id="tools">
          {tools.value.map((it) => (
            <option value={it} />
          ))}
        </datalist>
        <label class="grow">
          Input, as JSON <input name="input" value={'{"command": "git push"}'} />
        </label>
        <label>
          Workspace <input name="workspace" placeholder="the daemon's first" />
        </label>
        <button type="submit">Explain</button>
      </form>
      <output aria-live="polite">
        {problem.value && <strong class="failed">{problem.value}</strong>}
        {explained.value && <Decision explanation={explained.value} />}
      </output>
    </section>
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text || '{}');
  } catch {
    throw new Error('The input is not JSON.');
  }
}

function Decision({ explanation: { decision, rules, effects, suggestion } }: { explanation: Explanation }) {
  return (
    <>
      <p>
        <strong class={`decision ${decision}`}>{decision}</strong> {suggestion}
      </p>
      <ul>
        {rules.map(({ id, decision: of, reason, source }) => (
          <li>
            <span class={`decision ${of}`}>{of}</span> <code>{id}</code> {reason} <code class="dim">{source}</code>
          </li>
        ))}
        {effects.map(({ kind, target }) => (
          <li class="dim">
            {kind} <code>{target}</code>
          </li>
        ))}
      </ul>
    </>
  );
}
