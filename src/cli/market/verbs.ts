/** Verbs that find and install plugins and connectors of an npm registry; their code is loaded on demand. */
import type { Command } from 'commander';
import { systemPowers } from '../../base/powers.ts';
import type { MarketKind } from '../../services/market/registry.ts';
import type { ConnectFlags } from '../connect.ts';
import type { CliCapability, Verbs } from '../verbs/verbs.ts';

/** Adds `search` and `install` to a group of verbs. */
function addMarketVerbs(verbs: Verbs, group: Command, kind: MarketKind): void {
  const load = () => import('./market.ts');
  const callerOf = (flags: ConnectFlags) => ({ ...verbs.caller(flags), nowMs: systemPowers().now() });
  verbs
    .addOffline('search [words...]', `find npm packages with the keyword ringfence-${kind}`, group)
    .action(verbs.ending(async (words, flags) => (await load()).marketSearch(kind, words, flags, callerOf(flags))));
  verbs
    .addOffline('install <package>', `show an npm package, and install it as a ${kind} if you agree`, group)
    .option('--state <dir>', "the daemon's state directory")
    .option('--yes', 'install without asking; needs --sha256')
    .option('--sha256 <hash>', `refuse the ${kind} if its hash differs`)
    .action(verbs.ending(async (name, flags) => (await load()).marketInstall(kind, name, flags, callerOf(flags))));
}

export default {
  joinVerbs(verbs) {
    for (const kind of ['plugin', 'connector'] as const) {
      const group = verbs.program.commands.find((it) => it.name() === kind);
      if (group) addMarketVerbs(verbs, group, kind);
    }
  },
} satisfies CliCapability;
