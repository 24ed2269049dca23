/** A connector under test, whose service is played. */
import { readFileSync } from 'node:fs';
import { defaultLimits as limits } from '../base/limits.ts';
import { systemPowers } from '../base/powers.ts';
import {
  CHOICES,
  type Connector,
  FILE,
  secretsOf,
  secretUrlsOf,
  toConnector,
} from '../services/connectors/connector.ts';
import { pinnedConnectors } from '../services/connectors/pinned-connectors.ts';
import { presetText } from '../services/connectors/presets.ts';
import { toToolset } from '../services/connectors/toolset.ts';
import { PinError } from '../services/pinned/pin-error.ts';
import { bindSecret, storeSecret } from '../services/secrets/secret-files.ts';
import { hostOf } from '../services/secrets/secrets.ts';
import { toolsOf } from '../tools/registry.ts';
import { Added, orClosed, untilAdded } from './added.ts';
import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from './daemon.ts';
import { PlayedService, type ServiceAnswer, type ServiceRequest } from './played-http.ts';

const ALLOW_SERVICES = 'tiers:\n  external_api: { decision: allow }\n';

export interface ConnectorTestOptions extends TestDaemonOptions {
  /** Plays the service: what it answers to a request. */
  readonly service: (request: ServiceRequest) => ServiceAnswer | Promise<ServiceAnswer>;
  /** Values of secrets by name; invented ones when absent. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Whether the secrets stand for real accounts. */
  readonly live?: boolean;
}

/**
 * Starts a daemon with the connector of a file or a preset, whose service is played on this machine. Rejects
 * with every reason why it would not be taken.
 */
export async function testConnector(
  target: string,
  { service: play, secrets = {}, live, ...options }: ConnectorTestOptions,
): Promise<Added> {
  const text = presetText(target, limits) ?? readFileSync(target, 'utf8');
  const original = toConnector({ [FILE]: text }, limits, target);
  const service = await PlayedService.start(play);
  try {
    const base = `${service.url}${new URL(original.base).pathname.replace(/\/$/, '')}`;
    const choices = { base, private: true, live };
    const connector = toConnector({ [FILE]: text, [CHOICES]: JSON.stringify(choices) }, limits, target);
    assertPlayed(connector, service);
    const daemon = await startTestDaemon({ policy: ALLOW_SERVICES, ...options });
    return await orClosed(daemon, async () => {
      const { name, files } = connector;
      setSecrets(connector, daemon, { secrets, host: hostOf(new URL(base)) });
      pinnedConnectors(daemon.stateDir, limits).add(name, files, systemPowers().now());
      await untilAdded(daemon, { kind: 'connectors', name });
      const tools = toolsOf(toToolset(connector, { assertConfigured() {} }));
      return new Added({ name, tools, daemon, service });
    });
  } catch (error) {
    await service.close();
    throw error;
  }
}

/** Throws PinError if secrets would go to another service than the played one. */
function assertPlayed(connector: Connector, { url }: PlayedService): void {
  const elsewhere = secretUrlsOf(connector).find((it) => !it.startsWith(url));
  if (elsewhere !== undefined)
    throw new PinError([
      `${connector.name} signs in at ${elsewhere} (oauth2_client), which a test can't play; test it with auth: bearer`,
    ]);
}

function setSecrets(
  connector: Connector,
  { stateDir }: TestDaemon,
  { secrets, host }: { secrets: Readonly<Record<string, string>>; host: string },
): void {
  for (const { name } of secretsOf(connector)) {
    storeSecret(stateDir, { name, value: secrets[name] ?? `invented-${name}-for-this-test` }, limits);
    bindSecret(stateDir, name, [host]);
  }
}
