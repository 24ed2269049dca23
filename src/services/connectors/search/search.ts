/** `web_search`: asks the service that the configuration names, by its file in connectors/search/. */
import { ToolError } from '../../../base/errors.ts';
import type { Limits } from '../../../base/limits.ts';
import { FileRefusal } from '../../../policy/file.ts';
import type { Connected } from '../../../tools/connected.ts';
import type webSearch from '../../../tools/web/search.ts';
import { PinError } from '../../pinned/pin-error.ts';
import { CA, CHOICES, type Connector, FILE, secretsOf, toConnector } from '../connector.ts';
import type { Auth } from '../file.ts';
import { presetText } from '../presets.ts';
import type { ConnectedCall } from '../run-call.ts';
import { ServiceClient, type ServiceParts } from '../service-client.ts';
import { toResults } from './results.ts';
import type { SearchSettings } from './settings.ts';

type Input = ReturnType<typeof webSearch.input.parse>;
type Output = ReturnType<typeof webSearch.output.parse>;

export const SEARCH_TOOL = 'web_search';
/** The one operation of a search service. */
const OPERATION = 'search';

export class Search {
  readonly provider: SearchSettings['provider'];
  readonly service: ServiceClient;
  readonly #parts: ServiceParts;

  /** Throws PinError. */
  constructor(settings: SearchSettings, parts: ServiceParts) {
    this.provider = settings.provider;
    this.service = new ServiceClient(searchConnector(settings, parts.limits), parts, [SEARCH_TOOL]);
    this.#parts = parts;
  }

  get connector(): Connector {
    return this.service.connector;
  }

  /** The name is none that a connector can have. */
  get connected(): Connected {
    return { connector: `search/${this.provider}`, operation: OPERATION, digest: this.connector.sha256 };
  }

  /** Dollars that a search costs by the price list of the service. */
  get costUsd(): number {
    const { cost } = this.connector.operations[OPERATION] ?? {};
    return typeof cost === 'number' ? cost : 0;
  }

  /** Throws AUTH_REQUIRED if the key of the service is missing. */
  assertConfigured(): void {
    for (const it of secretsOf(this.connector)) this.#parts.secrets.assertConfigured(it);
  }

  /** Throws ToolError. */
  async run(call: ConnectedCall): Promise<Output> {
    const asked = call.input as Input;
    const { powers, limits } = this.#parts;
    const answered = await this.service.run(OPERATION, { ...call, input: toParameters(asked, powers.now()) });
    const { results, truncated } = toResults(answered.results, asked.maxResults, limits);
    const notes = [...this.#unknownTo(asked), ...(truncated ? ['further results were left out for their size'] : [])];
    return { results, provider: this.provider, notes, trust: 'untrusted' };
  }

  /** Notes about what was asked for and the service ignores. */
  #unknownTo({ safeSearch }: Input): string[] {
    const knows = Object.hasOwn(this.connector.operations[OPERATION]?.input ?? {}, 'safeSearch');
    return knows || safeSearch === 'off' ? [] : [`${this.provider} does not filter by safeSearch`];
  }
}

const DAY_MS = 86_400_000;
const DAYS = { day: 1, week: 7, month: 31, year: 366 } as const;

/** The parameters that files in connectors/search/ may name. */
function toParameters(asked: Input, nowMs: number): Record<string, unknown> {
  const { query, freshness, site } = asked;
  const since = freshness && new Date(nowMs - DAYS[freshness] * DAY_MS).toISOString().slice(0, 'yyyy-mm-dd'.length);
  return { ...asked, siteQuery: site === undefined ? query : `${query} site:${site}`, since };
}

/** The file of the service with the choices of the operator. Throws PinError. */
function searchConnector({ provider, url, secret, ca, private: isPrivate }: SearchSettings, limits: Limits): Connector {
  const files = {
    [FILE]: textOf(provider, limits),
    [CHOICES]: JSON.stringify({ base: url, private: isPrivate }),
    ...(ca !== undefined && { [CA]: ca }),
  };
  const connector = toConnector(files, limits, `search: ${provider}`);
  return secret === undefined ? connector : { ...connector, auth: withSecret(connector.auth, secret) };
}

function textOf(provider: string, limits: Limits): string {
  try {
    const text = presetText(`search/${provider}`, limits);
    if (text !== undefined) return text;
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
  }
  throw new PinError([`connectors/search/${provider}.yaml is missing; install Ringfence again`]);
}

/** The key under the operator's name for it. A service without keys gets one as a bearer token, for a proxy before it. */
function withSecret(auth: readonly Auth[], secret: string): Auth[] {
  return auth.map((it) => (it.kind === 'none' ? { kind: 'bearer', secret, setup: undefined } : { ...it, secret }));
}

export function notConfigured(): ToolError {
  return new ToolError('UNSUPPORTED', 'no search service is configured', {
    suggestion:
      'Ask the person to add a line to config.yaml and to start the daemon again: `search: { provider: searxng, url: "https://…" }`, or `search: { provider: brave }` (or tavily, exa, kagi) and its key with `ringfence secret set brave_key`.',
  });
}
