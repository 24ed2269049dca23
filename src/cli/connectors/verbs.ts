/** Verbs for connectors, and what the daemon reports of them; their code is loaded on demand. */
import type { Command } from 'commander';
import { systemPowers } from '../../base/powers.ts';
import { addNewVerb } from '../verbs/skeletons.ts';
import { type CliCapability, collect } from '../verbs/verbs.ts';

interface Service {
  readonly state: string;
  readonly auth?: string;
  readonly problem?: string;
  /** When it began to fail. */
  readonly since?: string;
}

/** The services in the answer to `status`. */
interface Services {
  readonly connectors?: readonly (Service & { readonly name: string; readonly tools: readonly string[] })[];
  /** Present if a service for `web_search` is configured. */
  readonly search?: Service & { readonly provider: string };
}

const named = ({ connectors = [], search }: Services) => [
  ...connectors.map((it) => ({ ...it, kind: 'connector', does: `${it.tools.length} tools` })),
  ...(search ? [{ ...search, kind: 'search', name: search.provider, does: 'for web_search' }] : []),
];

function problemOf({ state, auth, problem, since }: Service): string | undefined {
  if (state !== 'ok' && state !== 'limited')
    return `is ${state}${since === undefined ? '' : ` since ${since}`}: ${problem ?? 'no reason is known'}`;
  return auth === 'missing' ? 'has no secret' : undefined;
}

export default {
  statusLines: (status: Services) =>
    named(status).map(({ kind, name, state, auth, problem, since, does }) => {
      const failing = since === undefined ? '' : ` since ${since}`;
      const secret = auth === 'missing' ? ', its secret is missing' : '';
      return `${`${kind} ${name}`.padEnd(25)} ${state}${failing}: ${problem ?? does}${secret}`;
    }),
  services: (status: Services) => named(status).map((it) => ({ label: `${it.kind} ${it.name}`, wrong: problemOf(it) })),
  addVerbs(verbs) {
    const add = (parent: Command, name: string, description: string) => verbs.addBeside(name, description, parent);

    const connector = verbs
      .addGroup('connector', 'check, add, list and remove connectors, whose operations are tools')
      .summary('check, add, list and remove connectors to services');
    const load = () => import('./connector.ts');
    const addReading = (name: string, description: string) =>
      add(connector, name, description)
        .option('--base <url>', 'the URL of the service, in place of that in the file')
        .option('--ca <file>', "certificates of authorities (PEM), in place of the machine's")
        .option('--private', 'the service may be on this machine or its networks')
        .option('--live', 'use keys of real accounts, where the file tells them from test keys');
    addReading('check <file|preset>', 'check that a connector is valid, and show what it reaches').action(
      verbs.here(async () => (await load()).connectorCheck),
    );
    addReading('add <file|preset>', 'copy a connector as it is now; later sessions have its tools')
      .option('--sha256 <hash>', 'refuse the connector if its hash differs')
      .action(
        verbs.ending(async (target, flags) =>
          (await load()).connectorAdd(target, flags, { ...verbs.callerIn(flags), nowMs: systemPowers().now() }),
        ),
      );
    add(connector, 'from-openapi <file|->', 'write a connector file of an OpenAPI document to standard output')
      .option('--operations <pattern>', "operationId, path, METHOD or 'METHOD /path', with *; repeatable", collect)
      .option('--name <name>', 'the name of the connector')
      .action(verbs.anywhere(async () => (await import('./from-openapi.ts')).connectorFromOpenApi));
    add(connector, 'list', 'list the added connectors; exit code 1 if one is off').action(
      verbs.anywhere(async () => (await load()).connectorList),
    );
    add(connector, 'remove <name>', 'remove a connector').action(
      verbs.anywhere(async () => (await load()).connectorRemove),
    );
    addNewVerb(verbs, connector, 'connector');
  },
} satisfies CliCapability;
