/** Verbs of the audit log, of a daemon or of its state directory if none runs; their code is loaded on demand. */
import { type Command, Option } from 'commander';
import { AUDIT_KINDS } from '../../store/audit/entry.ts';
import type { AuditClient, AuditQueryFlags } from '../audit/audit.ts';
import type { AuditPruneFlags } from '../audit/prune.ts';
import type { Verbs } from './verbs.ts';

const filtered = (command: Command): Command =>
  command
    .option('--tool <name>', 'only calls of this tool')
    .option('--session <id>', 'only entries of this session')
    .option('--call-id <id>', 'only entries of this call; the beginning or end of its id is enough')
    .option('--text <text>', 'only entries with this text in a tool, input, effect, error code or detail')
    .option('--since <time>', 'only entries since this time: ISO 8601, or an age such as 30d or 12h')
    .option('--until <time>', 'only entries before this time: ISO 8601, or an age')
    .addOption(new Option('--success', 'only calls that succeeded').conflicts('failed'))
    .option('--failed', 'only calls that failed or were refused');

const KIND = ['--kind <kind>', 'only entries of this kind'] as const;

export function addAuditVerbs(verbs: Verbs): void {
  const audit = verbs.addGroup('audit', 'read the audit log: calls, decisions and results');
  // Here `--session` filters entries instead of naming the connection's session.
  const run = async ({ session: _, ...flags }: AuditQueryFlags, action: (client: AuditClient) => Promise<number>) => {
    const { withAudit } = await import('../audit/offline.ts');
    return withAudit(verbs.caller({ ...flags, autostart: false }), action);
  };
  const load = () => import('../audit/audit.ts');

  filtered(verbs.add('calls', 'list the newest calls with their decisions and results', audit, { isDefault: true }))
    .option('--limit <n>', 'how many calls to list (default: 50)', Number)
    .action(
      verbs.ending((flags) =>
        run(flags, async (client) => (await import('../audit/calls.ts')).auditCalls(toQuery(flags), client)),
      ),
    );
  filtered(verbs.add('query', 'list the newest entries of all kinds', audit))
    .addOption(new Option(...KIND).choices([...AUDIT_KINDS]))
    .option('--limit <n>', 'how many entries to list (default: 50)', Number)
    .action(verbs.ending((flags) => run(flags, async (client) => (await load()).auditQuery(toQuery(flags), client))));
  verbs
    .add('verify', 'check that no entry of the log was changed or removed', audit)
    .action(verbs.ending((flags) => run(flags, async (client) => (await load()).auditVerify(client, flags))));
  verbs
    .add('prune', 'drop old entries; the log says who did it and what is gone', audit)
    .option('--older-than <age>', 'entries older than this, such as 30d; at least a day (auditMinAgeMs)')
    .option('--keep <n>', 'all but the newest ones; what is younger than a day stays', Number)
    .action(
      verbs.ending(async (flags: AuditPruneFlags) =>
        (await import('../audit/prune.ts')).auditPrune(flags, verbs.caller({ ...flags, autostart: false })),
      ),
    );
  filtered(verbs.add('export', 'print all entries, one per line', audit))
    .addOption(new Option(...KIND).choices([...AUDIT_KINDS]))
    .addOption(new Option('--format <format>', 'the format of each line').choices(['jsonl', 'ocsf']).default('jsonl'))
    .action(
      verbs.ending((flags) =>
        run(flags, async (client) => (await load()).auditExport(flags.format, toQuery(flags), client)),
      ),
    );
}

/** The flags of the query, without those of the connection. */
function toQuery(flags: AuditQueryFlags & { failed?: boolean }): AuditQueryFlags {
  const { tool, session, callId, kind, text, since, until, limit, json, success, failed } = flags;
  const all = { tool, session, callId, kind, text, since, until, limit, json, success: failed ? false : success };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}
