/** Verbs of the person who runs the daemon; they work in any folder and start no daemon. */
import { Option } from 'commander';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import {
  approvalIdOf,
  approvalsApprove,
  approvalsDeny,
  approvalsGrants,
  approvalsList,
  approvalsRevoke,
  approvalsWatch,
  grantIdOf,
} from '../approvals.ts';
import type { BacktestFlags } from '../backtest.ts';
import { policyExplain, policyReload } from '../explain.ts';
import { metrics } from '../monitor/metrics.ts';
import { top } from '../monitor/top.ts';
import { EXIT, printJson } from '../output.ts';
import { status } from '../status.ts';
import { stop } from '../stop.ts';
import { upgrade } from '../upgrade.ts';
import type { Verbs } from './verbs.ts';

export function addDaemonVerbs(verbs: Verbs): void {
  verbs
    .add('status', 'show what the daemon is doing and which policy it follows')
    .option('--health', 'also check that each tool could run')
    .action(verbs.ending((flags) => status(flags, verbs.caller({ ...flags, autostart: false }))));
  verbs
    .add('metrics', 'print the metrics of the daemon as Prometheus reads them')
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => metrics(flags, client))));
  verbs
    .add('top', 'watch sessions, calls and hosts; q or Ctrl-C ends it')
    .option('--once', 'print one look and end')
    .action(
      verbs.ending((flags) =>
        verbs.asOperator(flags, (client) => top(flags, client, { input: process.stdin, output: process.stdout })),
      ),
    );
  verbs
    .add('upgrade', 'replace the daemon by a new one of the version on disk; no call is lost')
    .option('--drain <time>', 'how long calls that run may continue: 30s, 10m (the default), 1h')
    .action(verbs.ending((flags) => upgrade(flags, verbs.caller(flags))));
  verbs.add('stop', 'stop the daemon').action(
    verbs.ending(async (flags) => {
      const code = await stop(verbs.caller(flags));
      if (flags.json) printJson({ stopped: code === EXIT.OK });
      return code;
    }),
  );
}

export function addApprovalVerbs(verbs: Verbs): void {
  const approvals = verbs.addGroup('approvals', 'answer calls that wait for approval, and manage your answers');
  verbs
    .add('list', 'list the calls that wait for an answer', approvals, { isDefault: true })
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => approvalsList(client, flags))));
  verbs
    .add('watch', 'answer questions in this terminal until Ctrl-C; with --json, print them as events', approvals)
    .action(
      verbs.ending((flags) =>
        verbs.asOperator(flags, (client) => {
          const { stdin: input, stdout: output } = process;
          const noColor = verbs.env.NO_COLOR !== undefined;
          return approvalsWatch(client, { input, output, isTTY: output.isTTY, noColor, json: flags.json === true });
        }),
      ),
    );
  verbs
    .add('approve <id>', 'allow a waiting call, once', approvals)
    .addOption(
      new Option(
        '--remember <what>',
        'also allow the same for the rest of the session: exactly this call, or the tool',
      ).choices(['exact', 'tool']),
    )
    .option('--always', 'remember the answer for all sessions')
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => approvalsApprove(client, await approvalIdOf(id, client), flags)),
      ),
    );
  verbs
    .add('deny <id>', 'deny a waiting call', approvals)
    .option('--feedback <text>', 'the reason; the agent gets to read it')
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => approvalsDeny(client, await approvalIdOf(id, client), flags)),
      ),
    );
  verbs
    .add('grants', 'list the answers that also hold for later calls', approvals)
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => approvalsGrants(client, flags))));
  verbs
    .add('revoke <id>', 'revoke one of these answers', approvals)
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => approvalsRevoke(client, await grantIdOf(id, client), flags)),
      ),
    );
}

export function addProviderVerbs(verbs: Verbs): void {
  const providers = verbs.addGroup('providers', 'list external tool servers, and accept changes of their tools');
  const load = () => import('../providers.ts');
  verbs
    .add('list [name]', 'list all providers, or show one with its tools', providers, { isDefault: true })
    .action(
      verbs.ending((name, flags) =>
        verbs.asOperator(flags, async (client) => (await load()).providersList(client, name, flags)),
      ),
    );
  verbs
    .add(
      'accept <name> [tools...]',
      'accept changed or new tools, each as TOOL@CODE; without tools, show what waits',
      providers,
    )
    .action(
      verbs.ending((name, tools, flags) =>
        verbs.asOperator(flags, async (client) => (await load()).providersAccept(client, name, tools, flags)),
      ),
    );
  verbs
    .add('check', 'check that all providers run and no change waits; exit code 0 or 1', providers)
    .action(
      verbs.ending((flags) => verbs.asOperator(flags, async (client) => (await load()).providersCheck(client, flags))),
    );
}

/** Loads the policy code on demand: it needs the YAML library and the built-in policies, which would slow down other verbs. */
export function addPolicyVerbs(verbs: Verbs): void {
  const policy = verbs.addGroup('policy', 'check, explain, test and compare the rules for calls');
  const load = () => import('../policy.ts');
  verbs
    .addOffline('check <file>', 'check that a policy file is valid, and list every error', policy)
    .action(verbs.ending(async (file, flags) => (await load()).policyCheck(file, flags)));
  verbs
    .addOffline('test <file>', 'run the examples in the rules of a policy file', policy)
    .action(verbs.ending(async (file, flags) => (await load()).policyTest(file, flags)));
  verbs
    .addOffline('diff <old> <new>', 'compare two policies', policy)
    .action(verbs.ending(async (old, fresh, flags) => (await load()).policyDiff(old, fresh, flags)));
  verbs
    .add(
      'explain <tool> [input...]',
      'show how a call would be decided and by which rules; write the input as for `call`',
      policy,
    )
    .option('--workspace <dir>', "the folder to work in (default: this one, or the daemon's first)")
    .option('--saw-untrusted', 'decide as for a session that has read the web')
    .action(verbs.ending((tool, input, flags) => policyExplain(tool, input, flags, verbs.caller(flags))));
  verbs
    .add('reload', 'make the daemon read its policy files again', policy)
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => policyReload(client, flags))));
  verbs
    .add('backtest <old> <new>', 'list recorded calls that the two policies would decide differently', policy)
    .option('--since <time>', 'use calls since this time: ISO 8601, or an age (default: 30d)')
    .action(
      verbs.ending(async (old, fresh, flags: BacktestFlags & { state?: string }) => {
        const { policyBacktest } = await import('../backtest.ts');
        const { home } = findUserDirs(flags, verbs.env);
        return verbs.asOperator(flags, (client) => policyBacktest({ old, new: fresh }, flags, { client, home }));
      }),
    );
}
