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
import { EXIT, printJson } from '../output.ts';
import { status } from '../status.ts';
import { stop } from '../stop.ts';
import type { Verbs } from './verbs.ts';

export function addDaemonVerbs(verbs: Verbs): void {
  verbs
    .add('status', 'what the daemon is doing, and the policy that it follows')
    .option('--health', 'ask the tools whether they could work, too')
    .action(verbs.ending((flags) => status(flags, verbs.caller({ ...flags, autostart: false }))));
  verbs.add('stop', 'end the daemon').action(
    verbs.ending(async (flags) => {
      const code = await stop(verbs.caller(flags));
      if (flags.json) printJson({ stopped: code === EXIT.OK });
      return code;
    }),
  );
}

export function addApprovalVerbs(verbs: Verbs): void {
  const approvals = verbs.addGroup('approvals', 'what waits for your answer, and your answers');
  verbs
    .add('list', 'what waits', approvals, { isDefault: true })
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => approvalsList(client, flags))));
  verbs.add('watch', 'be asked, here, until Ctrl-C; as JSON, what is told of questions', approvals).action(
    verbs.ending((flags) =>
      verbs.asOperator(flags, (client) => {
        const { stdin: input, stdout: output } = process;
        const noColor = verbs.env.NO_COLOR !== undefined;
        return approvalsWatch(client, { input, output, isTTY: output.isTTY, noColor, json: flags.json === true });
      }),
    ),
  );
  verbs
    .add('approve <id>', 'say yes, once', approvals)
    .addOption(
      new Option('--remember <what>', 'for the session: this very call, or the tool').choices(['exact', 'tool']),
    )
    .option('--always', 'remember it for all sessions')
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => approvalsApprove(client, await approvalIdOf(id, client), flags)),
      ),
    );
  verbs
    .add('deny <id>', 'say no', approvals)
    .option('--feedback <text>', 'why; it reaches the agent')
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => approvalsDeny(client, await approvalIdOf(id, client), flags)),
      ),
    );
  verbs
    .add('grants', 'answers that stand for further calls', approvals)
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => approvalsGrants(client, flags))));
  verbs
    .add('revoke <id>', 'take such an answer back', approvals)
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => approvalsRevoke(client, await grantIdOf(id, client), flags)),
      ),
    );
}

export function addProviderVerbs(verbs: Verbs): void {
  const providers = verbs.addGroup('providers', 'external tool servers, and what changed in their tools');
  const load = () => import('../providers.ts');
  verbs
    .add('list [name]', 'all of them, or one with its tools', providers, { isDefault: true })
    .action(
      verbs.ending((name, flags) =>
        verbs.asOperator(flags, async (client) => (await load()).providersList(client, name, flags)),
      ),
    );
  verbs
    .add(
      'accept <name> [tools...]',
      'take changed or new tools, each as TOOL@CODE; without any, show what waits',
      providers,
    )
    .action(
      verbs.ending((name, tools, flags) =>
        verbs.asOperator(flags, async (client) => (await load()).providersAccept(client, name, tools, flags)),
      ),
    );
  verbs
    .add('check', 'whether all are there and nothing waits; exit code 0 or 1', providers)
    .action(
      verbs.ending((flags) => verbs.asOperator(flags, async (client) => (await load()).providersCheck(client, flags))),
    );
}

/** Loads the policy code on demand: it needs the YAML library and the built-in policies, which would slow down other verbs. */
export function addPolicyVerbs(verbs: Verbs): void {
  const policy = verbs.addGroup('policy', 'what calls may do: check, explain, test, compare');
  const load = () => import('../policy.ts');
  verbs
    .addOffline('check <file>', 'whether a policy file would be taken, and every reason why not', policy)
    .action(verbs.ending(async (file, flags) => (await load()).policyCheck(file, flags)));
  verbs
    .addOffline('test <file>', 'how each example of its rules comes out', policy)
    .action(verbs.ending(async (file, flags) => (await load()).policyTest(file, flags)));
  verbs
    .addOffline('diff <old> <new>', 'what one says and the other does not', policy)
    .action(verbs.ending(async (old, fresh, flags) => (await load()).policyDiff(old, fresh, flags)));
  verbs
    .add(
      'explain <tool> [input...]',
      'how a call would be decided, and by which rules; input as `call` takes it',
      policy,
    )
    .option('--workspace <dir>', "the folder to work in (default: this one, or the daemon's first)")
    .action(verbs.ending((tool, input, flags) => policyExplain(tool, input, flags, verbs.caller(flags))));
  verbs
    .add('reload', 'read the policy anew', policy)
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => policyReload(client, flags))));
  verbs
    .add('backtest <old> <new>', 'recorded calls that the two would decide differently', policy)
    .option('--since <time>', 'ISO 8601, or an age (default: 30d)')
    .action(
      verbs.ending(async (old, fresh, flags: BacktestFlags & { state?: string }) => {
        const { policyBacktest } = await import('../backtest.ts');
        const { home } = findUserDirs(flags, verbs.env);
        return verbs.asOperator(flags, (client) => policyBacktest({ old, new: fresh }, flags, { client, home }));
      }),
    );
}
