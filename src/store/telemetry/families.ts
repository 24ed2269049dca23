/** Metrics as plain data, and their text for Prometheus (exposition format 0.0.4). */

export interface Sample {
  /** What follows the name of the family: `_bucket`, `_sum`, `_count`; absent for the family itself. */
  readonly suffix?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly samples: readonly Sample[];
}

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** A family with one sample and no labels. */
export const single = (name: string, type: 'counter' | 'gauge', help: string, value: number): Family => ({
  name,
  type,
  help,
  samples: [{ value }],
});

/** The text that Prometheus reads. */
export function toText(families: readonly Family[]): string {
  const lines = families.flatMap(({ name, type, help, samples }) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...samples.map(({ suffix = '', labels = {}, value }) => `${name}${suffix}${labelText(labels)} ${value}`),
  ]);
  return `${lines.join('\n')}\n`;
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

const escaped = (value: string): string =>
  value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
