/** Verbs for MCP servers of others, and what the daemon reports of them; their code is loaded on demand. */
import type { CliCapability } from '../verbs/verbs.ts';

/** The providers in the answer to `status`. */
interface Provided {
  readonly providers?: readonly {
    readonly name: string;
    readonly state: string;
    readonly pending: number;
    readonly since?: string;
    readonly reason?: string;
  }[];
}

export default {
  statusLines: ({ providers = [] }: Provided) =>
    providers.map(({ name, state, pending, since, reason }) => {
      const why = reason === undefined ? '' : ` since ${since}: ${reason}`;
      const toAccept = pending > 0 ? `, ${pending} tools to accept: ringfence providers accept ${name}` : '';
      return `provider ${name.padEnd(16)} ${state}${why}${toAccept}`;
    }),
  services: ({ providers = [] }: Provided) =>
    providers.map(({ name, state, reason }) => ({
      label: `provider ${name}`,
      wrong: state === 'waiting' ? `is down: ${reason ?? 'it ended'}` : undefined,
    })),
  addVerbs(verbs) {
    const providers = verbs.addGroup('providers', 'list external tool servers, and accept changes of their tools');
    const load = () => import('./providers.ts');
    verbs
      .add('list [name]', 'list all providers, or show one with its tools', providers, { isDefault: true })
      .action(verbs.operating(async (client, name, flags) => (await load()).providersList(client, name, flags)));
    verbs
      .add(
        'accept <name> [tools...]',
        'accept changed or new tools, each as TOOL@CODE; without tools, show what waits',
        providers,
      )
      .action(
        verbs.operating(async (client, name, tools, flags) =>
          (await load()).providersAccept(client, name, tools, flags),
        ),
      );
    verbs
      .add('check', 'check that all providers run and no change waits; exit code 0 or 1', providers)
      .action(verbs.operating(async (client, flags) => (await load()).providersCheck(client, flags)));
  },
} satisfies CliCapability;
