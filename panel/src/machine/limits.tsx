/** What a call of each tier may use at most, by the policy in force. */
import { bytes, preciseDuration } from '../clock.ts';
import { type BoundName, status } from './status.ts';
import { Table } from './table.tsx';

const MiB = 1024 * 1024;

const BOUNDS: readonly (readonly [name: BoundName, title: string, format: (value: number) => string])[] = [
  ['timeoutMs', 'Time', preciseDuration],
  ['cpuMs', 'CPU', preciseDuration],
  ['memoryMb', 'Memory', (it) => bytes(it * MiB)],
  ['processes', 'Processes', String],
  ['fileMb', 'Largest file', (it) => bytes(it * MiB)],
  ['outputBytes', 'Output', bytes],
  ['costUsdPerDay', 'Cost a day', (it) => `$${it}`],
];

export function TierLimits() {
  return (
    <Table title="Limits of a call" heads={['Tier', ...BOUNDS.map(([, title]) => title)]}>
      {Object.entries(status.value?.bounds ?? {}).map(([tier, bounds]) => (
        <tr key={tier}>
          <td>{tier}</td>
          {BOUNDS.map(([name, , format]) => (
            <td key={name}>{bounds[name] === undefined ? '–' : format(bounds[name])}</td>
          ))}
        </tr>
      ))}
    </Table>
  );
}
