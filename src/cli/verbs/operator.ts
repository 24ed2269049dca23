/** Verbs of the person who runs the daemon, from any folder; they start none, and their code is loaded on demand. */
import { type Command, Option } from 'commander';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import type { BacktestFlags } from '../backtest.ts';
import { EXIT, printJson } from '../output.ts';
import { collect, type Verbs } from './verbs.ts';

export function addDaemonVerbs(verbs: Verbs): void {
  verbs
    .add('metrics', 'print the metrics of the daemon as Prometheus reads them')
    .action(verbs.operating(async (client, flags) => (await import('../monitor/metrics.ts')).metrics(flags, client)));
  verbs
    .add('costs', 'show what calls have cost, and how near that is to the limits of the policy')
    .option('--days <n>', 'how many days, today included', Number, 30)
    .addOption(new Option('--by <what>', 'what to sum up').choices(['tool', 'principal', 'day']).default('tool'))
    .action(verbs.operating(async (client, flags) => (await import('../monitor/costs.ts')).costs(flags, client)));
  verbs
    .add('top', 'watch sessions, calls and hosts; q or Ctrl-C ends it')
    .option('--once', 'print one look and end')
    .action(
      verbs.operating(async (client, flags) =>
        (await import('../monitor/top.ts')).top(flags, client, { input: process.stdin, output: process.stdout }),
      ),
    );
  const load = () => import('../monitor/pause.ts');
  verbs
    .add('pause [agent]', 'keep calls of all agents, or of one, from beginning until `ringfence resume`')
    .option('--stop', 'also end all calls that run, wait or are asked about')
    .action(verbs.operating(async (client, agent, flags) => (await load()).pause(agent, flags, client)));
  verbs
    .add('resume [agent]', 'let calls begin again')
    .action(verbs.operating(async (client, agent, flags) => (await load()).resume(agent, flags, client)));
  verbs
    .add('upgrade', 'replace the daemon by a new one of the version on disk; no call is lost')
    .option('--drain <time>', 'how long calls that run may continue: 30s, 10m (the default), 1h')
    .action(verbs.anywhere(async () => (await import('../upgrade.ts')).upgrade));
  verbs.add('stop', 'stop the daemon').action(
    verbs.ending(async (flags) => {
      const code = await (await import('../stop.ts')).stop(verbs.caller(flags));
      if (flags.json) printJson({ stopped: code === EXIT.OK });
      return code;
    }),
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
  addBundleVerbs(verbs, policy);
  verbs
    .add(
      'explain <tool> [input...]',
      'show how a call would be decided and by which rules; write the input as for `call`',
      policy,
    )
    .option('--workspace <dir>', "the folder to work in (default: this one, or the daemon's first)")
    .option('--saw-untrusted', 'decide as for a session that has read the web')
    .option('--write', 'add the rule that would allow it to your policy file')
    .action(verbs.anywhere(async () => (await import('../explain.ts')).policyExplain));
  verbs
    .addBeside(
      'set <tool> <level>',
      'decide all calls of a tool in your policy file: auto, ask, deny or default',
      policy,
    )
    .action(
      verbs.ending(async (tool, level, flags) =>
        (await import('../init/init.ts')).policySet(tool, level, verbs.callerIn(flags)),
      ),
    );
  verbs
    .add('reload', 'make the daemon read its policy files again', policy)
    .action(verbs.operating(async (client, flags) => (await import('../explain.ts')).policyReload(client, flags)));
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

function addBundleVerbs(verbs: Verbs, policy: Command): void {
  const bundle = policy.command('bundle').description('pack a policy into one file with a digest, and sign it');
  const load = () => import('../ci/bundle.ts');
  verbs
    .addOffline('build <file>', 'pack a policy file and all that it extends; prints the bundle', bundle)
    .option('-o, --output <file>', 'write the bundle to this file instead')
    .action(verbs.here(async () => (await load()).bundleBuild));
  verbs
    .addOffline('sign <bundle>', 'add a signature to a bundle', bundle)
    .requiredOption('--key <file>', 'your ed25519 private key in PEM')
    .action(verbs.here(async () => (await load()).bundleSign));
  verbs
    .addOffline('verify <bundle>', 'check that a bundle is whole and valid; exit code 0 or 2', bundle)
    .option('--key <file>', 'the ed25519 public key in PEM whose owner must have signed it')
    .action(verbs.here(async () => (await load()).bundleVerify));
}

export function addCiVerb(verbs: Verbs): void {
  verbs
    .addOffline('ci [command...]', 'run the command of a CI job beside a daemon of its own, and keep the record')
    .option('--policy <policy>', 'a built-in policy, a file, a bundle, or git:REF:PATH', 'unattended')
    .option('--policy-digest <digest>', 'the digest that the policy must have (`policy bundle build` prints it)')
    .option('--policy-key <file>', 'the public key whose owner must have signed the bundle')
    .option('--workspace <dir>', 'a folder that agents may work in; may be repeated (default: this one)', collect)
    .option('--audit <file>', 'where the record goes', 'ringfence-audit.jsonl')
    .option('--summary <file>', 'add a summary in Markdown to this file (default: $GITHUB_STEP_SUMMARY)')
    .addOption(
      new Option('--fail-on <what>', 'fail if a call was denied or left open, only if one was left open, or never')
        .choices(['denied', 'open', 'nothing'])
        .default('denied'),
    )
    .action(verbs.here(async () => (await import('../ci/ci.ts')).ci));
}
