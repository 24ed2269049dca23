/** Inputs of what is composed, and saving it as a tool of its own, which agents call. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { request, requestIn } from '../connection.ts';
import { inputs, loadTools, type TypedInput, toComposition, tools, workspace } from './composed.ts';

const TYPES = ['string', 'integer', 'number', 'boolean', 'array', 'object'] as const;

export function Inputs() {
  const change = (at: number, it: Partial<TypedInput>) => {
    inputs.value = inputs.value.map((other, n) => (n === at ? { ...other, ...it } : other));
  };
  return (
    <section>
      {inputs.value.map((it, at) => (
        <div class="bar" key={at}>
          <Text label="Input" value={it.name} pattern="[A-Za-z][A-Za-z0-9_]*" onText={(name) => change(at, { name })} />
          <label>
            Type{' '}
            <select value={it.type} onChange={(event) => change(at, { type: event.currentTarget.value })}>
              {TYPES.map((type) => (
                <option value={type}>{type}</option>
              ))}
            </select>
          </label>
          <Text label="What it is" value={it.description} onText={(description) => change(at, { description })} />
          <Text label="Example" value={it.example} onText={(example) => change(at, { example })} />
          <button type="button" onClick={() => (inputs.value = inputs.value.filter((_, n) => n !== at))}>
            Remove the input {it.name}
          </button>
        </div>
      ))}
      <button
        type="button"
        onClick={() => {
          const fresh = { name: `input${inputs.value.length + 1}`, type: 'string', description: '', example: '' };
          inputs.value = [...inputs.value, fresh];
        }}
      >
        Add an input
      </button>
    </section>
  );
}

function Text(props: { label: string; value: string; pattern?: string; onText: (text: string) => void }) {
  const { label, value, pattern, onText } = props;
  return (
    <label>
      {label}{' '}
      <input
        value={value}
        {...(pattern && { pattern })}
        onChange={({ currentTarget: it }) => {
          if (it.checkValidity()) onText(it.value);
          else it.value = value;
        }}
      />
    </label>
  );
}

/** Saves the steps under a name, tries the tool with the examples of its inputs, and lists the saved ones. */
export function SaveTool({ isReady }: { isReady: boolean }) {
  const [name, description, told, saved] = [useSignal(''), useSignal(''), useSignal(''), useSignal<string[]>([])];
  const list = async () => {
    const { plugins } = await request('status');
    saved.value = plugins.filter(({ name, tools }) => tools?.includes(`${name}__run`)).map((it) => it.name);
    await loadTools();
  };
  const act = async (action: () => Promise<string>) => {
    told.value = await action().catch((error: Error) => error.message);
    await list().catch(() => {});
  };
  useEffect(() => void list().catch(() => {}), []);
  const save = async () => {
    const composed = toComposition(description.value);
    const { tool, version } = await request('plugins.save', { name: name.value, composed });
    return `${tool} is saved, version ${version}.`;
  };
  const tryIt = async () => {
    const { examples } = toComposition(description.value);
    const params = { tool: `${name.value}__run`, input: examples[0]?.input ?? {} };
    const result = workspace.value
      ? await requestIn(workspace.value, 'tools.call', params)
      : await request('tools.call', params);
    return result.success ? `It gave ${JSON.stringify(result.data).slice(0, 300)}` : result.error.message;
  };
  return (
    <section>
      <h2>Save as a tool</h2>
      <div class="bar">
        <Text label="Its name" value={name.value} pattern="[a-z][a-z0-9_]*" onText={(it) => (name.value = it)} />
        <Text label="What it does" value={description.value} onText={(it) => (description.value = it)} />
        <button type="button" disabled={!isReady || !name.value} onClick={() => void act(save)}>
          Save as tool
        </button>
        <button type="button" disabled={!tools.value.has(`${name.value}__run`)} onClick={() => void act(tryIt)}>
          Try it
        </button>
      </div>
      <output aria-live="polite">{told.value}</output>
      <ul>
        {saved.value.map((it) => (
          <li key={it}>
            <code>{it}</code>{' '}
            <button
              type="button"
              onClick={() =>
                void act(async () => {
                  await request('plugins.remove', { name: it });
                  return `${it} is removed.`;
                })
              }
            >
              Remove the tool {it}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
