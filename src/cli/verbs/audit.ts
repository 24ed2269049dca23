/** Verbs of the audit log: answered by the daemon, or read from its state directory if none runs. */
import { type Command, Option } from 'commander';
import { AUDIT_KINDS } from '../../store/audit/entry.ts';
import { type AuditQueryFlags, auditExport, auditQuery, auditVerify } from '../audit/audit.ts';
import { auditCalls } from '../audit/calls.ts';
import { withAudit } from '../audit/offline.ts';
import type { Verbs } from './verbs.ts';

const filtered = (command: Command): Command =>
  command
    .option('--tool <name>', 'calls of this tool')
    .option('--session <id>', 'of this session')
    .option('--call-id <id>', 'of this call; the beginning or end of its id will do')
    .option('--since <time>', 'ISO 8601, or an age such as 30d or 12h')
    .option('--until <time>', 'ISO 8601, or an age')
    .addOption(new Option('--success', 'calls that succeeded').conflicts('failed'))
    .option('--failed', 'calls that failed or were refused');

const KIND = ['--kind <kind>', 'of entries'] as const;

export function addAuditVerbs(verbs: Verbs): void {
  const audit = verbs.addGroup('audit', 'the record of what was asked and what came of it');
  // Here `--session` filters entries instead of naming the connection's session.
  const run = ({ session: _, ...flags }: AuditQueryFlags, action: Parameters<typeof withAudit>[1]) =>
    withAudit(verbs.caller({ ...flags, autostart: false }), action);

  filtered(verbs.add('calls', 'the newest calls: what was decided, what came of them', audit, { isDefault: true }))
    .option('--limit <n>', 'calls wanted, 50 when absent', Number)
    .action(verbs.ending((flags) => run(flags, (client) => auditCalls(toQuery(flags), client))));
  filtered(verbs.add('query', 'the newest entries of all kinds', audit))
    .addOption(new Option(...KIND).choices([...AUDIT_KINDS]))
    .option('--limit <n>', 'entries wanted, 50 when absent', Number)
    .action(verbs.ending((flags) => run(flags, (client) => auditQuery(toQuery(flags), client))));
  verbs
    .add('verify', 'whether the record is whole and in order', audit)
    .action(verbs.ending((flags) => run(flags, (client) => auditVerify(client, flags))));
  filtered(verbs.add('export', 'all entries, a line each', audit))
    .addOption(new Option(...KIND).choices([...AUDIT_KINDS]))
    .addOption(new Option('--format <format>', 'of the lines').choices(['jsonl', 'ocsf']).default('jsonl'))
    .action(verbs.ending((flags) => run(flags, (client) => auditExport(flags.format, toQuery(flags), client))));
}

/** The flags of the query, without those of the connection. */
function toQuery(flags: AuditQueryFlags & { failed?: boolean }): AuditQueryFlags {
  const { tool, session, callId, kind, since, until, limit, json, success, failed } = flags;
  const all = { tool, session, callId, kind, since, until, limit, json, success: failed ? false : success };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}
