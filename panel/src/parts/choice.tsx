/** A choice among few values, the first of which stands for all. */

interface ChoiceProps {
  readonly label: string;
  readonly options: readonly (readonly [value: string, name: string])[];
  /** The name of its value in a form. */
  readonly name?: string;
  /** The label of the option that leaves the list unfiltered. */
  readonly any?: string;
  readonly value?: string;
  readonly onChoice?: (value: string) => void;
}

export function Choice({ label, options, any = `any ${label.toLowerCase()}`, name, value, onChoice }: ChoiceProps) {
  return (
    <label class="choice">
      <span class="hidden">{label}</span>
      <select class="chip" name={name} value={value} onChange={(it) => onChoice?.(it.currentTarget.value)}>
        <option value="">{any}</option>
        {options.map(([key, text]) => (
          <option value={key}>{text}</option>
        ))}
      </select>
    </label>
  );
}
