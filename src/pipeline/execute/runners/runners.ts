/** The runners of the gateway, which carry out the calls of tools that name them in `runs`. */
import { type RunnerName, type RunsBy, runsInCommand } from '../../../tools/runs.ts';
import { runOpening } from '../../doors/openings.ts';
import type { Outcome } from '../../outcome.ts';
import type { ClearedCall } from '../../stage.ts';
import { listBackground } from '../background/kept-calls.ts';
import type { FetchHooks } from '../exchanges.ts';
import type { ExecuteParts } from '../execute.ts';
import { ranOutcome } from '../ran-outcome.ts';
import { inTime, timeout } from '../read-only-run.ts';
import { runFetch } from '../web/fetch.ts';
import { runPage } from '../web/page.ts';
import { runVisit } from '../web/visit.ts';
import { runConnected } from './connected.ts';
import { runServer } from './database-server.ts';
import { runOfTools } from './of-tools.ts';
import { runProgram } from './program.ts';
import { runToolchain } from './toolchains.ts';
import { runUpstream } from './upstream.ts';

/** Undefined for a call that the tool's own `run` carries out in a host. */
type Runner<Name extends RunnerName> = (
  runs: RunsBy<Name>,
  call: ClearedCall,
  hooks: FetchHooks,
) => Promise<Outcome> | undefined;

export type Runners = { readonly [Name in RunnerName]: Runner<Name> };

export function createRunners(parts: ExecuteParts): Runners {
  const timed = (call: ClearedCall, run: () => Promise<Outcome>) => inTime(call, parts, run);
  return {
    agents: (_, call, hooks) => parts.tasks.run(call, hooks),
    connectors: ({ operation }, call, hooks) => timed(call, () => runConnected(operation, call, parts, hooks)),
    databases({ request }, call, hooks) {
      const statement = request(call.checked.input as never);
      return statement && timed(call, () => runServer(statement, call, parts, hooks));
    },
    doors: (_, call, hooks) => timed(call, () => runOpening(call, hooks)),
    // No path rules apply: the program sees no paths.
    async isolates(_, call, hooks) {
      const limited = { ...hooks, timeout: (limitMs: number) => timeout(call.checked, limitMs) };
      return ranOutcome(await runProgram(call, parts, limited), call, { ...hooks, parts });
    },
    // The provider's own sandbox applies the workspace's masks.
    providers: ({ provider }, call, hooks) =>
      timed(call, async () => {
        const ran = await runUpstream(provider, call, { ...parts, ...hooks });
        return ranOutcome(ran, call, { ...hooks, parts });
      }),
    toolchains: (_, call, hooks) => timed(call, () => runToolchain(call, parts.toolchains, hooks)),
    tools: (_, call, hooks) => timed(call, () => runOfTools(call, hooks)),
    web({ visit, request, read }, call, hooks) {
      const page = visit?.(call.checked.input as never);
      if (page) return timed(call, () => runVisit(page, call, { parts, hooks }));
      const asked = request?.(call.checked.input as never);
      return asked && timed(call, () => (read ? runPage : runFetch)(asked, call, { parts, hooks }));
    },
  };
}

/** Carries out a call if a runner does, or the gateway itself; undefined for a call that runs in a host. */
export function runByRunner(
  call: ClearedCall,
  hooks: FetchHooks,
  { runners, parts }: { runners: Runners; parts: ExecuteParts },
): Promise<Outcome> | undefined {
  const { tool, input } = call.checked;
  const { runs } = tool;
  if (runs && 'by' in runs) return (runners[runs.by] as Runner<RunnerName>)(runs, call, hooks);
  const of = runsInCommand(tool)?.ofBackground?.(input as never);
  return of && of.handle === undefined ? listBackground(call, { ...parts, hooks }) : undefined;
}
