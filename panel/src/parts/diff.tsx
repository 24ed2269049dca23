/** A unified diff, with its lines marked by sign and colour. */
import { TextBlock } from './text-block.tsx';

const kindOf = (line: string): string => {
  if (line.startsWith('+++') || line.startsWith('---') || line.startsWith('@@')) return 'head';
  if (line.startsWith('+')) return 'add';
  return line.startsWith('-') ? 'del' : '';
};

export function Diff({ text, label }: { text: string; label: string }) {
  return (
    <TextBlock label={label} kind="diff">
      {text.split('\n').map((line) => (
        <span class={kindOf(line)}>{`${line}\n`}</span>
      ))}
    </TextBlock>
  );
}
