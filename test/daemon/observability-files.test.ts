/** The dashboard and the alert rules name only metrics and labels that a daemon has. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { Family } from '../../src/store/telemetry/families.ts';
import { type OpenDaemon, openDaemon, repository } from '../support/daemon.ts';

const folder = join(repository, 'examples/observability');
const rules = join(folder, 'alerts.yaml');
const page = readFileSync(join(repository, 'docs/how-to/observability.md'), 'utf8');

let daemon: OpenDaemon;
let families: Family[];
beforeAll(async () => {
  // Its metrics of traces are there only with a collector; none listens at this port.
  const telemetry = { traces: { endpoint: 'http://127.0.0.1:9/v1/traces' } };
  daemon = await openDaemon({ config: { telemetry } });
  await using operator = await daemon.connect({ role: 'operator' });
  ({ families } = (await operator.request('metrics.read', { format: 'json' })) as { families: Family[] });
});
afterAll(() => daemon[Symbol.asyncDispose]());

interface AlertFile {
  groups: { rules: { alert: string; expr: string; annotations: Record<string, string> }[] }[];
}
interface Dashboard {
  panels: { title: string; targets: { expr: string }[] }[];
}

const alerts = () => (parse(readFileSync(rules, 'utf8')) as AlertFile).groups.flatMap((it) => it.rules);
const panels = () => (JSON.parse(readFileSync(join(folder, 'dashboard.json'), 'utf8')) as Dashboard).panels;
const metricsIn = (text: string) =>
  text.match(/\b(?:ringfence|process|nodejs|(?:gen_ai|mcp)(?=\w*_seconds))_[a-z_]+/g) ?? [];

/** Names as they are queried: a histogram is queried by its parts. */
const known = () =>
  families.flatMap(({ name, type }) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map((it) => name + it) : [name],
  );

test('every metric of the alert rules and of the dashboard exists', () => {
  const asked = [...alerts().map((it) => it.expr), ...panels().flatMap((it) => it.targets.map(({ expr }) => expr))];
  expect(asked.length).toBeGreaterThan(20);
  for (const expr of asked) for (const it of metricsIn(expr)) expect(known(), expr).toContain(it);
});

test('the page names every metric, and none that does not exist', () => {
  const told = new Set(metricsIn(page).filter((it) => !it.endsWith('_')));
  expect([...told].toSorted()).toEqual(families.map((it) => it.name).toSorted());
});

test('every alert says what to do', () => {
  for (const { alert, annotations } of alerts()) {
    expect(annotations.summary, alert).toMatch(/\.$/);
    expect(annotations.action, alert).toMatch(/\.$/);
  }
});

test('promtool accepts the alert rules, and the text of a daemon', async (context) => {
  const checked = spawnSync('promtool', ['check', 'rules', rules], { encoding: 'utf8' });
  if (checked.error) return context.skip('promtool is not installed: apt-get install prometheus');
  expect(checked).toMatchObject({ status: 0 });
  await using operator = await daemon.connect({ role: 'operator' });
  const { text } = (await operator.request('metrics.read', {})) as { text: string };
  const read = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
  expect(read).toMatchObject({ status: 0, stderr: '' });
});
