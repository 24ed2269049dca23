/** Verbs for connectors and the secrets that their requests need; their code is loaded on demand. */
import type { Command } from 'commander';
import { systemPowers } from '../../base/powers.ts';
import { addMarketVerbs } from './market.ts';
import { addNewVerb } from './skeletons.ts';
import { collect, type Verbs } from './verbs.ts';

/** Adds `secret set|list|remove` and `connector add|list|check|remove|from-openapi`. */
export function addConnectorVerbs(verbs: Verbs): void {
  const add = (parent: Command, name: string, description: string) => verbs.addBeside(name, description, parent);

  const secret = verbs.addGroup('secret', 'store, list and remove the secrets that requests of connectors need');
  const loadSecret = () => import('../connectors/secret.ts');
  add(secret, 'set <name>', 'store a secret from standard input, or typed without being shown')
    .option('--host <host[:port]>', 'send the secret to this host only; repeatable', collect)
    .action(verbs.ending(async (name, flags) => (await loadSecret()).secretSet(name, flags, verbs.caller(flags))));
  add(secret, 'list', 'list the names of secrets, where they are, and the hosts they are sent to').action(
    verbs.ending(async (flags) => (await loadSecret()).secretList(flags, verbs.caller(flags))),
  );
  add(secret, 'remove <name>', 'remove a secret from the state directory').action(
    verbs.ending(async (name, flags) => (await loadSecret()).secretRemove(name, flags, verbs.caller(flags))),
  );

  const connector = verbs.addGroup('connector', 'check, add, list and remove connectors, whose operations are tools');
  const load = () => import('../connectors/connector.ts');
  const addReading = (name: string, description: string) =>
    add(connector, name, description)
      .option('--base <url>', 'the URL of the service, in place of that in the file')
      .option('--ca <file>', "certificates of authorities (PEM), in place of the machine's")
      .option('--private', 'the service may be on this machine or its networks')
      .option('--live', 'use keys of real accounts, where the file tells them from test keys');
  addReading('check <file|preset>', 'check that a connector is valid, and show what it reaches').action(
    verbs.ending(async (target, flags) => (await load()).connectorCheck(target, flags, verbs.callerIn(flags))),
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
    .action(
      verbs.ending(async (file, flags) =>
        (await import('../connectors/from-openapi.ts')).connectorFromOpenApi(file, flags, verbs.caller(flags)),
      ),
    );
  add(connector, 'list', 'list the added connectors; exit code 1 if one is off').action(
    verbs.ending(async (flags) => (await load()).connectorList(flags, verbs.caller(flags))),
  );
  add(connector, 'remove <name>', 'remove a connector').action(
    verbs.ending(async (name, flags) => (await load()).connectorRemove(name, flags, verbs.caller(flags))),
  );
  addNewVerb(verbs, connector, 'connector');
  addMarketVerbs(verbs, connector, 'connector');
}
