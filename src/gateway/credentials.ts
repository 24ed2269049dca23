/** Tokens and the identities that they prove. */
import { RpcError, ToolError } from '../base/errors.ts';
import type { Powers } from '../base/powers.ts';
import { readOrMakeToken, replaceToken } from '../store/tokens.ts';
import { sameSecret } from '../wire/transport/same-secret.ts';
import type { Identity } from './authenticate.ts';
import type { Fences } from './connections/fences.ts';
import type { Attenuations } from './delegation/attenuations.ts';

export interface CredentialsOptions {
  /** Absolute path, outside every sandbox. */
  readonly stateDir: string;
  /** Agents of the config file; each has its own token. */
  readonly principals: readonly { readonly name: string; readonly policy?: string }[];
  /** Gives the signed-in page that a ticket is of, once. */
  pageOf(ticket: string): string | undefined;
  /** Tokens that sessions passed on. */
  readonly attenuations: Pick<Attenuations, 'identify'>;
  /** Tokens of sessions that a fleet opens. */
  readonly fences: Pick<Fences, 'identify'>;
}

const PANEL = 'panel:';

/** The principal of a signed-in page, by the page's id. */
export const panelPrincipal = (id: string): string => `${PANEL}${id}`;

/** The id of a signed-in page, by its principal; undefined for other principals. */
export const panelIdOf = (principal: string): string | undefined =>
  principal.startsWith(PANEL) ? principal.slice(PANEL.length) : undefined;

const METRICS = 'metrics';

interface KnownCredential {
  readonly name: string;
  /** Undefined for the metrics token, which opens no session. */
  readonly identity: Identity | undefined;
  secret: string;
}

export class Credentials {
  readonly #stateDir: string;
  readonly #powers: Powers;
  readonly #pageOf: CredentialsOptions['pageOf'];
  readonly #attenuations: CredentialsOptions['attenuations'];
  readonly #fences: CredentialsOptions['fences'];
  readonly #credentials: readonly KnownCredential[];

  /** Creates missing tokens: `operator.token`, `agent.token`, `metrics.token`, `tokens/<principal>.token`. */
  constructor({ stateDir, principals, pageOf, attenuations, fences }: CredentialsOptions, powers: Powers) {
    this.#stateDir = stateDir;
    this.#powers = powers;
    this.#pageOf = pageOf;
    this.#attenuations = attenuations;
    this.#fences = fences;
    const identities: [name: string, identity: Identity | undefined][] = [
      ['operator', { role: 'operator', principal: 'operator' }],
      ['agent', { role: 'agent', principal: 'token' }],
      [METRICS, undefined],
      ...principals.map(({ name, policy }): [string, Identity] => [name, { role: 'agent', principal: name, policy }]),
    ];
    this.#credentials = identities.map(([name, identity]) => ({
      name,
      identity,
      secret: readOrMakeToken(stateDir, name, () => powers.secret()),
    }));
  }

  /**
   * The identity that a token proves; undefined for an unknown token. Compares all tokens, so the time taken does not reveal which one
   * matched.
   */
  readonly identify = (token: string): Identity | undefined => {
    const [known] = this.#credentials.filter(({ secret }) => sameSecret(token, secret));
    if (known) return known.identity;
    return this.#attenuations.identify(token) ?? this.#fences.identify(token) ?? this.#identifyPage(token);
  };

  /** Whether a token may read the daemon's metrics: the one made for that, and the operator's. */
  readonly mayReadMetrics = (token: string): boolean =>
    this.#credentials
      .filter(({ secret }) => sameSecret(token, secret))
      .some(({ name, identity }) => name === METRICS || identity?.role === 'operator');

  /**
   * Replaces the tokens with these names, or all if there are none; the old tokens stop working at once. Returns the names and identities.
   * Throws RpcError INVALID_PARAMS for a name without a token, ToolError STORE_FAILED.
   */
  rotate(names: readonly string[]): { name: string; identity: Identity | undefined }[] {
    const rotated = names.length === 0 ? this.#credentials : names.map((it) => this.#named(it));
    for (const it of rotated) {
      const secret = this.#powers.secret();
      try {
        replaceToken(this.#stateDir, it.name, secret);
      } catch (cause) {
        throw new ToolError('STORE_FAILED', `the token of ${it.name} can not be written at the moment`, { cause });
      }
      it.secret = secret;
    }
    return rotated.map(({ name, identity }) => ({ name, identity }));
  }

  /** A signed-in page acts as the operator, under a principal of its own, so that the record tells who answered. */
  #identifyPage(token: string): Identity | undefined {
    const id = this.#pageOf(token);
    return id === undefined ? undefined : { role: 'operator', principal: panelPrincipal(id) };
  }

  #named(name: string): KnownCredential {
    const known = this.#credentials.find((it) => it.name === name);
    if (known) return known;
    const all = this.#credentials.map((it) => it.name).join(', ');
    throw new RpcError('INVALID_PARAMS', `${name.slice(0, 64)} has no token; tokens exist for: ${all}`);
  }
}
