/** One call of the batch that is composed: its name, its fields, and the outputs that are put into them. */
import { useRef } from 'preact/hooks';
import { calls, changeStep, parametersFor, problem, referencesFor, removeStep, steps, tools } from './composed.ts';
import type { Parameter } from './schema.ts';
import { type Step, WHOLE_INPUT } from './steps.ts';

/** The letters that a reference can name. */
const ID = '[^\\s.$\\{\\}\\[\\]]+';

export function StepForm({ step }: { step: Step }) {
  const { id, tool } = step;
  const known = tools.value.get(tool);
  const parameters = parametersFor(tool);
  const whole: Parameter = { name: WHOLE_INPUT, kind: 'json', isRequired: true, description: 'The input as JSON.' };
  const required = parameters?.filter((it) => it.isRequired) ?? [whole];
  const others = parameters?.filter((it) => !it.isRequired) ?? [];
  const fieldOf = (it: Parameter) => <Field key={it.name} step={step} parameter={it} />;
  return (
    <fieldset class="compose">
      <legend>
        {tool} {known?.tier && <span class="dim">{known.tier}</span>}
      </legend>
      <div class="bar">
        <label>
          Name{' '}
          <input
            value={id}
            pattern={ID}
            maxLength={64}
            onChange={({ currentTarget: it }) => {
              const isFree = !steps.value.some((other) => other.id === it.value);
              if (it.value && it.checkValidity() && isFree) changeStep(id, { id: it.value });
              else it.value = id;
            }}
          />
        </label>
        <After step={step} />
        <button type="button" onClick={() => removeStep(id)}>
          Remove {id}
        </button>
      </div>
      {known?.description && <p class="dim">{known.description.slice(0, 300)}</p>}
      {required.map(fieldOf)}
      {others.length > 0 && (
        <details open={others.some(({ name }) => step.fields.get(name))}>
          <summary>{others.length} more fields</summary>
          {others.map(fieldOf)}
        </details>
      )}
    </fieldset>
  );
}

/** Which steps come first, beside those whose outputs it takes. */
function After({ step: { id, after } }: { step: Step }) {
  const at = steps.value.findIndex((it) => it.id === id);
  const earlier = steps.value.slice(0, at);
  if (earlier.length === 0) return null;
  const toggle = (other: string, isOn: boolean) =>
    changeStep(id, { after: isOn ? [...after, other] : after.filter((it) => it !== other) });
  return (
    <span>
      After:{' '}
      {earlier.map((it) => (
        <label key={it.id}>
          <input
            type="checkbox"
            checked={after.includes(it.id)}
            onChange={({ currentTarget }) => toggle(it.id, currentTarget.checked)}
          />
          {it.id}{' '}
        </label>
      ))}
    </span>
  );
}

function Field({ step, parameter }: { step: Step; parameter: Parameter }) {
  const { name, kind, choices, description, isRequired } = parameter;
  const text = useRef<HTMLTextAreaElement>(null);
  const value = step.fields.get(name) ?? '';
  const set = (it: string) => changeStep(step.id, { fields: new Map([...step.fields, [name, it]]) });
  const references = referencesFor(step.id);
  const insert = (reference: string) => {
    const [from, to] = [text.current?.selectionStart ?? value.length, text.current?.selectionEnd ?? value.length];
    set(value.slice(0, from) + reference + value.slice(to));
  };
  const key = `field-${step.id}-${name}`;
  const said = problem.value ?? (typeof calls.value === 'string' ? calls.value : undefined);
  const fault = said?.startsWith(`In ${name} of ${step.id} `) ? said : undefined;
  const title = name === WHOLE_INPUT ? 'Input' : name;
  return (
    <div class="field">
      <label htmlFor={key}>
        {title}
        {isRequired && name !== WHOLE_INPUT && ' (needed)'}
        {kind === 'json' && !choices && ' as JSON'}
      </label>
      <div>
        {choices ? (
          <select id={key} value={value} onChange={(it) => set(it.currentTarget.value)}>
            <option value="">{isRequired ? 'choose …' : 'not set'}</option>
            {choices.map((it) => (
              <option value={it}>{it}</option>
            ))}
          </select>
        ) : (
          <textarea
            id={key}
            ref={text}
            aria-invalid={fault !== undefined}
            rows={value.includes('\n') || value.length > 80 ? 4 : 1}
            value={value}
            onInput={(it) => set(it.currentTarget.value)}
          />
        )}
      </div>
      {!choices && references.length > 0 && (
        <label class="wire">
          <span class="hidden">
            Put an output into {title} of {step.id}
          </span>
          <select
            value=""
            onChange={({ currentTarget: it }) => {
              if (it.value) insert(it.value);
              it.value = '';
            }}
          >
            <option value="">put an output here …</option>
            {references.map((it) => (
              <option value={it}>{it.slice(2, -1)}</option>
            ))}
          </select>
        </label>
      )}
      {fault !== undefined && <small class="failed">{fault.slice(`In ${name} of ${step.id} `.length)}</small>}
      {description && <small class="dim">{description.slice(0, 200)}</small>}
    </div>
  );
}
