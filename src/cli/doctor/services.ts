/** Whether the services of others work that tools ask. */
import { showLine } from '../../base/text/shown-text.ts';
import { capabilities } from '../verbs/capabilities.ts';
import { type DoctorFinding, findingsOf } from './machine.ts';

/** Judges the daemon's answer to `status`; empty if no services are configured. */
export function judgeServices(status: object): DoctorFinding[] {
  const { ok, warning } = findingsOf('services');
  const all = capabilities.flatMap((it) => it.services?.(status) ?? []);
  if (all.length === 0) return [];
  const bad = all.filter((it) => it.wrong !== undefined).map((it) => `${it.label} ${it.wrong}`);
  if (bad.length === 0) return [ok(`no problem is known of ${all.length} services`)];
  const fix =
    'Set missing secrets with `ringfence secret set NAME`; look at the rest with `ringfence status --health`.';
  return [warning(showLine(bad.join('; ')), fix)];
}
