/** A choice among few values, the first of which stands for all. */

interface ChoiceProps {
  readonly label: string;
  readonly options: readonly (readonly [value: string, name: string])[];
  /** The name of its value in a form. */
  readonly name?: string;
  readonly value?: string;
  readonly onChoice?: (value: string) => void;
}

export function Choice({ label, options, name, value, onChoice }: ChoiceProps) {
  return (
    <label>
      {label}{' '}
      <select name={name} value={value} onChange={(it) => onChoice?.(it.currentTarget.value)}>
        <option value="">all</option>
        {options.map(([key, text]) => (
          <option value={key}>{text}</option>
        ))}
      </select>
    </label>
  );
}
