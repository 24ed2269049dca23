/** The profiles of sub-agents: which there are, and the requests to their models with their keys. */

import { ToolError } from '../../base/errors.ts';
import type { Credential, HttpRequest } from '../../sandbox/egress/messages.ts';
import type { Secrets } from '../secrets/secrets.ts';
import { type ModelTurn, requestBody } from './request-body.ts';
import type { AgentProfile } from './settings.ts';

/** A request without its bounds. */
export type ModelRequest = Omit<HttpRequest, 'bytesMax' | 'withinMs'> & { readonly body: string };

export interface AgentsParts {
  readonly profiles: Readonly<Record<string, AgentProfile>>;
  readonly secrets: Secrets;
}

/** The profile of a task that names none, if there are several. */
const DEFAULT = 'default';
const MILLION = 1_000_000;

export class Agents {
  readonly #profiles: ReadonlyMap<string, AgentProfile>;
  readonly #secrets: Secrets;

  constructor({ profiles, secrets }: AgentsParts) {
    this.#profiles = new Map(Object.entries(profiles));
    this.#secrets = secrets;
  }

  get names(): string[] {
    return [...this.#profiles.keys()];
  }

  /** The profile of this name; without a name `default`, or the only one. Throws INPUT_INVALID. */
  find(name?: string): AgentProfile {
    const { names } = this;
    const wanted = name ?? (names.length === 1 ? (names[0] as string) : DEFAULT);
    const profile = this.#profiles.get(wanted);
    if (profile) return profile;
    throw new ToolError(
      'INPUT_INVALID',
      `agent: there is no profile ${wanted.slice(0, 64)}; the configuration has: ${names.join(', ')}`,
    );
  }

  /** A request for one answer; the key is in it as a credential alone. Throws AUTH_REQUIRED, ACCESS_DENIED. */
  async requestOf(profile: AgentProfile, turn: ModelTurn): Promise<ModelRequest> {
    const { url, dialect } = profile;
    return {
      url: `${url.replace(/\/+$/, '')}/${dialect === 'openai' ? 'chat/completions' : 'messages'}`,
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Accept: 'text/event-stream',
        ...(dialect === 'anthropic' && { 'anthropic-version': '2023-06-01' }),
      },
      body: requestBody(profile, turn),
      credentials: await this.#credentialsOf(profile),
    };
  }

  async #credentialsOf({ secret: name, url, dialect }: AgentProfile): Promise<Credential[]> {
    if (name === undefined) return [];
    const secret = await this.#secrets.read({ name }, url);
    return dialect === 'openai'
      ? [{ in: 'header', name: 'Authorization', value: `Bearer ${secret}`, secret }]
      : [{ in: 'header', name: 'x-api-key', value: secret, secret }];
  }
}

/** Dollars for tokens by the price table of the operator; undefined without one. */
export function priceOf(
  { pricesUsdPerMillion: prices }: Pick<AgentProfile, 'pricesUsdPerMillion'>,
  { inputTokens, outputTokens }: { readonly inputTokens: number; readonly outputTokens: number },
): number | undefined {
  return prices && (inputTokens * prices.input + outputTokens * prices.output) / MILLION;
}
