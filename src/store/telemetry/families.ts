import * as z from 'zod';
import type { Read } from '../../base/result-shapes.ts';

/** Samples of one metric; `suffix` follows the name of the family: `_bucket`, `_sum`, `_count`. */
export const metricFamily = z.strictObject({
  name: z.string(),
  type: z.enum(['counter', 'gauge', 'histogram']),
  help: z.string(),
  samples: z.array(
    z.strictObject({
      suffix: z.string().optional(),
      labels: z.record(z.string(), z.string()).optional(),
      value: z.number(),
    }),
  ),
});
export type Family = Read<z.output<typeof metricFamily>>;
export type Sample = Family['samples'][number];

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
