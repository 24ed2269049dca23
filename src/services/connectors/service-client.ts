/** One service that a connector reaches: its requests with their secrets, and what is known of how it works. */

import { ToolError } from '../../base/errors.ts';
import { jsonOr } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import type { Credential } from '../../sandbox/egress/messages.ts';
import type { DaemonParts } from '../capability.ts';
import type { ServiceAnswer } from './answer.ts';
import type { Connector } from './connector.ts';
import type { Auth, OperationFile } from './file.ts';
import { toForm } from './form.ts';
import type { PlainRequest } from './request.ts';
import { runOperation } from './run.ts';
import type { ConnectedCall } from './run-call.ts';
import { ServiceLimits } from './service-limits.ts';

type OAuth = Extract<Auth, { kind: 'oauth2_client' }>;

export type ServiceParts = Pick<DaemonParts, 'secrets' | 'limits' | 'powers'>;

/** Time before its end at which a token is replaced, in milliseconds. */
const TOKEN_MARGIN_MS = 60_000;

export class ServiceClient {
  readonly connector: Connector;
  readonly tools: readonly string[];
  readonly #parts: ServiceParts;
  readonly #service: ServiceLimits;
  /** Holds the place of a secret in a path; no agent can guess it. */
  readonly #pathSecret: string;
  #token: { readonly value: string; readonly untilMs: number } | undefined;

  /** `tools` names the tools whose calls go to the service; those of a connector by default. */
  constructor(connector: Connector, parts: ServiceParts, tools?: readonly string[]) {
    this.connector = connector;
    this.tools = tools ?? Object.keys(connector.operations).map((it) => `${connector.name}__${it}`);
    this.#parts = parts;
    this.#pathSecret = `secret-${parts.powers.secret()}`;
    this.#service = new ServiceLimits(parts.limits, parts.powers);
  }

  get state() {
    return this.#service.state;
  }

  /** Runs an operation for a call. Throws ToolError. */
  async run(name: string, call: ConnectedCall): Promise<Record<string, unknown>> {
    const operation = this.connector.operations[name];
    if (!operation)
      throw new ToolError('TOOL_DISABLED', `the connector ${this.connector.name} has no operation ${name}`);
    const { idempotencyKey } = call;
    const given = call.input as Readonly<Record<string, unknown>>;
    const input = operation.upload ? await withFiles(operation.upload, given, call) : given;
    return runOperation(
      { connector: this.connector, operation, input, idempotencyKey },
      {
        limits: this.#parts.limits,
        service: this.#service,
        send: (request) => this.#send(request, call),
        wait: (ms) => call.wait(ms),
      },
    );
  }

  /** Asks the service by its health path, and learns from what it answers. Throws ToolError if it gives no answer. */
  async probe(call: Pick<ConnectedCall, 'fetch'>): Promise<void> {
    const { healthPath, base, headers } = this.connector;
    if (healthPath === undefined) return;
    const request = { url: `${base}${healthPath}`, method: 'GET', headers: { Accept: 'application/json', ...headers } };
    this.#service.answered(await this.#send(request, call));
  }

  async #send(request: PlainRequest, call: Pick<ConnectedCall, 'fetch'>): Promise<ServiceAnswer> {
    try {
      const credentials = await Promise.all(this.connector.auth.map((it) => this.#credentialOf(it, call)));
      // Values of parameters are encoded by now, so that only the connector's own path holds these braces.
      const url = request.url.replace('{secret}', this.#pathSecret);
      return await this.#fetch({ ...request, url, credentials: credentials.flat() }, call);
    } catch (error) {
      this.#service.released();
      throw error;
    }
  }

  async #fetch(
    asked: Parameters<ConnectedCall['fetch']>[0],
    call: Pick<ConnectedCall, 'fetch'>,
  ): Promise<ServiceAnswer> {
    const { ca } = this.connector;
    const answer = await call.fetch({ ...asked, ca });
    if ('status' in answer) return answer;
    const { host } = new URL(asked.url);
    if ('refused' in answer)
      throw new ToolError('POLICY_DENIED', `connecting to ${host} is refused: ${answer.refused}`);
    const problem = 'late' in answer ? answer.late : answer.failed;
    this.#service.failed(problem.slice(0, 200));
    throw new ToolError('UPSTREAM_FAILED', `${host} gave no answer: ${problem}`.slice(0, 500).toWellFormed());
  }

  /** The secret of a request in its place. Throws AUTH_REQUIRED, ACCESS_DENIED. */
  async #credentialOf(auth: Auth, call: Pick<ConnectedCall, 'fetch'>): Promise<Credential[]> {
    if (auth.kind === 'none') return [];
    if (auth.kind === 'oauth2_client') {
      const token = await this.#tokenOf(auth, call);
      return [{ in: 'header', name: 'Authorization', value: `Bearer ${token}`, secret: token }];
    }
    const secret = await this.#read(auth, this.connector.base);
    const header = (name: string, value: string): Credential[] => [{ in: 'header', name, value, secret }];
    switch (auth.kind) {
      case 'bearer':
        return header('Authorization', `Bearer ${secret}`);
      case 'header':
        return header(auth.header, `${auth.prefix}${secret}`);
      case 'basic':
        return header('Authorization', toBasic(auth.user, secret));
      case 'query':
        return [{ in: 'query', name: auth.param, value: secret, secret }];
      case 'path':
        return [{ in: 'path', name: this.#pathSecret, value: secret, secret }];
      default:
        return auth satisfies never;
    }
  }

  /** A token that the service gives for the secret, kept for as long as the service says. */
  async #tokenOf(auth: OAuth, call: Pick<ConnectedCall, 'fetch'>): Promise<string> {
    const nowMs = this.#parts.powers.monotonicMs();
    if (this.#token && this.#token.untilMs > nowMs) return this.#token.value;
    const secret = await this.#read(auth, auth.tokenUrl);
    const { tokenUrl: url, clientId, scope } = auth;
    const asked = {
      url,
      method: 'POST',
      headers: { Accept: 'application/json', 'Content-Type': 'application/x-www-form-urlencoded' },
      body: toForm({ grant_type: 'client_credentials', scope }),
      credentials: [{ in: 'header', name: 'Authorization', value: toBasic(clientId, secret), secret } as const],
    };
    const answer = await this.#fetch(asked, call);
    const given = answer.status === 200 ? parseToken(answer) : undefined;
    if (!given)
      throw new ToolError('AUTH_REQUIRED', `${new URL(url).host} answered ${answer.status} and gave no token`, {
        suggestion: 'Ask the person to check the client id and the secret.',
      });
    this.#token = { value: given.token, untilMs: nowMs + given.seconds * 1000 - TOKEN_MARGIN_MS };
    return given.token;
  }

  async #read(needed: NeededKey, url: string): Promise<string> {
    const secret = await this.#parts.secrets.read({ name: needed.secret, setup: needed.setup }, url);
    if (!this.connector.isLive && needed.live?.some((it) => secret.startsWith(it)))
      throw new ToolError('ACCESS_DENIED', `the secret \`${needed.secret}\` is a key of a real account`, {
        suggestion: `Ask the person to set a test key, or to add the connector for real ones: ringfence connector add ${this.connector.name} --live`,
      });
    if (/^[\t\x20-\x7e]+$/.test(secret)) return secret;
    throw new ToolError('AUTH_REQUIRED', `the secret \`${needed.secret}\` holds characters that no request can send`);
  }
}

/** A secret, and the beginnings of those for real accounts. */
interface NeededKey {
  readonly secret: string;
  readonly setup?: string | undefined;
  readonly live?: readonly string[] | undefined;
}

/** The input with the files below a folder of the workspace. */
async function withFiles(
  { from, as, nameAs }: NonNullable<OperationFile['upload']>,
  input: Readonly<Record<string, unknown>>,
  call: ConnectedCall,
): Promise<Readonly<Record<string, unknown>>> {
  const folder = String(input[from]);
  const name = folder.split('/').findLast((it) => it !== '' && it !== '.') ?? 'project';
  return {
    ...input,
    [as]: await call.filesBelow(folder),
    [nameAs]: name.toLowerCase().replaceAll(/[^a-z0-9._-]+/g, '-'),
  };
}

/** The header of a user and a password; without a user the secret is the user, and there is no password. */
const toBasic = (user: string | undefined, secret: string): string =>
  `Basic ${Buffer.from(user === undefined ? `${secret}:` : `${user}:${secret}`).toString('base64')}`;

/** Seconds for which a token is used whose answer names none. */
const TOKEN_SECONDS = 300;

function parseToken({ body }: ServiceAnswer): { token: string; seconds: number } | undefined {
  const value = jsonOr(Buffer.from(body).toString('utf8'), undefined);
  if (!isRecord(value) || typeof value.access_token !== 'string' || !/^[\x21-\x7e]{1,8192}$/.test(value.access_token))
    return undefined;
  const seconds = typeof value.expires_in === 'number' ? value.expires_in : TOKEN_SECONDS;
  return { token: value.access_token, seconds };
}
