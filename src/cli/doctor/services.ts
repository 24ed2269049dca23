/** Whether the services of others work that tools ask: those of connectors, the one of `web_search`, MCP providers. */

import { showLine } from '../../base/text/shown-text.ts';
import type { ServiceStatus, Status } from '../status.ts';
import type { DoctorFinding } from './machine.ts';

/** Empty if no services are configured. */
export function judgeServices({ connectors = [], search, providers = [] }: Partial<Status>): DoctorFinding[] {
  const id = 'services';
  const all = [
    ...connectors.map((it) => ({ label: `connector ${it.name}`, wrong: problemOf(it) })),
    ...(search ? [{ label: `search ${search.provider}`, wrong: problemOf(search) }] : []),
    ...providers.map(({ name, state, reason }) => ({
      label: `provider ${name}`,
      wrong: state === 'waiting' ? `is down: ${reason ?? 'it ended'}` : undefined,
    })),
  ];
  if (all.length === 0) return [];
  const bad = all.filter((it) => it.wrong !== undefined).map((it) => `${it.label} ${it.wrong}`);
  if (bad.length === 0) return [{ id, status: 'ok', found: `no problem is known of ${all.length} services` }];
  const fix =
    'Set missing secrets with `ringfence secret set NAME`; look at the rest with `ringfence status --health`.';
  return [{ id, status: 'warning', found: showLine(bad.join('; ')), fix }];
}

function problemOf({ state, auth, problem, since }: ServiceStatus): string | undefined {
  if (state !== 'ok' && state !== 'limited')
    return `is ${state}${since === undefined ? '' : ` since ${since}`}: ${problem ?? 'no reason is known'}`;
  return auth === 'missing' ? 'has no secret' : undefined;
}
