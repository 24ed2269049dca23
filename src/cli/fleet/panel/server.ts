/**
 * The panel of a fleet, on the operator's machine: the page of the daemon's panel, with the questions of all nodes. This
 * program has the operator's key and signs what a page asks; a page has a token of its own, and never the key.
 */
import { RpcError } from '../../../base/errors.ts';
import type { Limits } from '../../../base/limits.ts';
import type { Powers } from '../../../base/powers.ts';
import { panelFolder } from '../../../base/runtime.ts';
import { listenPanel } from '../../../faces/panel/listen.ts';
import { readPage } from '../../../faces/panel/page-files.ts';
import { SignIn } from '../../../faces/panel/sign-in.ts';
import { FleetError } from '../../../fleet/fleet-error.ts';
import type { Order } from '../../../fleet/orders.ts';
import { Presence } from '../../../fleet/presence.ts';
import { started } from '../../../fleet/started.ts';
import { publisherOf, subjects } from '../../../fleet/subjects.ts';
import { fromWire } from '../../../fleet/wire.ts';
import { PanelSessions } from '../../../store/panel-sessions.ts';
import type { RequestBudget } from '../../../wire/protocol/peer.ts';
import { ServingTurns } from '../../../wire/protocol/serving-turns.ts';
import { webSocketOptions } from '../../../wire/protocol/websocket-options.ts';
import type { Channel } from '../../../wire/transport/transport.ts';
import { WaitingRoom } from '../../../wire/transport/waiting-room.ts';
import { OperatorError } from '../../output.ts';
import { FleetInbox } from '../inbox.ts';
import { Nodes } from '../nodes.ts';
import { obeyed } from '../orders.ts';
import { answerParams, type FleetAnswers, type OrderParams, orderParams } from './messages.ts';
import { PageLink } from './page-link.ts';

export interface FleetPanelOptions {
  readonly folder: string;
  /** Port on 127.0.0.1; 0 picks a free one. */
  readonly port: number;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Time between two readings of the roster, which other programs of the operator change. */
const ROSTER_MS = 2_000;

export class FleetPanel implements AsyncDisposable {
  readonly #options: FleetPanelOptions;
  readonly #parts = new AsyncDisposableStack();
  readonly #pages = new Set<PageLink>();
  /** Questions whose answers are on their way. */
  readonly #answering = new Set<string>();
  /** Why questions of nodes are not known, by the names of the nodes. */
  readonly #problems = new Map<string, string>();
  readonly #nodes: Nodes;
  readonly #inbox: FleetInbox;
  readonly #presence: Presence;
  readonly #signIn: SignIn;
  readonly #sessions: PanelSessions;
  #address = '';

  /** Connects to the bus and serves the panel. Throws FleetError, also if the port is taken. */
  static async start(options: FleetPanelOptions): Promise<FleetPanel> {
    return started(new FleetPanel(await Nodes.connect(options.folder), options), (it) => it.#start());
  }

  private constructor(nodes: Nodes, options: FleetPanelOptions) {
    const { limits, powers } = options;
    this.#options = options;
    this.#nodes = this.#parts.use(nodes);
    this.#inbox = new FleetInbox(nodes, (node, problem) => {
      if (problem === undefined) this.#problems.delete(node);
      else this.#problems.set(node, problem);
    });
    this.#presence = new Presence(limits.fleetMembersMax);
    this.#sessions = this.#parts.use(new PanelSessions(':memory:', limits, powers));
    this.#signIn = new SignIn({ sessions: this.#sessions, limits, powers, onSignIn() {} });
  }

  /** An address that signs one page in. */
  newUrl(): { url: string; expiresAt: string } {
    const { code, expiresAt } = this.#signIn.newCode();
    return { url: `${this.#address}#code=${code}`, expiresAt };
  }

  async #start(): Promise<void> {
    const { port, limits, powers } = this.#options;
    const hear = ({ subject, data }: { subject: string; data: Uint8Array }) =>
      this.#presence.hear(publisherOf(subject), fromWire(data), powers.monotonicMs());
    this.#parts.use(this.#nodes.link.subscribe(subjects.heartbeat('*'), hear));
    const rereading = powers.every(ROSTER_MS, () => this.#rereadRoster());
    this.#parts.defer(() => rereading.cancel());
    this.#parts.use(this.#inbox.watch((it) => this.#tellNews(it)));
    const isToken = (token: string) => this.#signIn.pageOf(token) !== undefined;
    const options = webSocketOptions({ host: '127.0.0.1', port }, isToken, { limits, powers });
    const names = new Set([this.#sessions.host]);
    const page = { files: readPage(panelFolder), signIn: this.#signIn, names };
    const listener = await listenPanel({ ...options, ...page }, this.#accepting()).catch((error: Error) => {
      throw new FleetError(`the panel can't be served at port ${port}: ${error.message}`);
    });
    this.#parts.use(listener);
    this.#address = listener.address;
  }

  /** Tells all pages what has changed; of an answer that is being given here, its outcome is told instead. */
  #tellNews({ method, params }: { readonly method: string; readonly params: unknown }): void {
    const { approvalId = '' } = params as { readonly approvalId?: string };
    if (method !== 'approval.resolved' || !this.#answering.has(approvalId)) this.#tell(method, params);
  }

  /** Takes over members that joined or left since. */
  #rereadRoster(): void {
    try {
      this.#nodes.refresh();
    } catch (error) {
      if (!(error instanceof FleetError)) throw error;
      this.#options.powers.log.warn({ reason: error.message }, 'the roster can not be read');
    }
  }

  #accepting(): (channel: Channel) => void {
    const { limits, powers } = this.#options;
    const room = new WaitingRoom(limits, powers);
    const budget: RequestBudget = { bytes: 0 };
    const turns = new ServingTurns(limits, powers);
    return (channel) => {
      const page: PageLink = new PageLink(channel, {
        limits,
        powers,
        budget,
        turns,
        idOf: (ticket) => this.#signIn.pageOf(ticket),
        fleet: this.#nodes.fleet,
        answer: (method, params) => this.#answer(method, params),
        onSignedIn: (id) => {
          room.leave(page);
          this.#sessions.use(id);
          this.#pages.add(page);
        },
        onClose: () => {
          room.leave(page);
          this.#pages.delete(page);
        },
      });
      if (!room.enter(page)) page.destroy();
    };
  }

  async #answer(method: string, params: unknown): Promise<unknown> {
    try {
      switch (method) {
        case 'events.subscribe':
          return {}; // Each page hears of all questions.
        case 'approvals.list':
        case 'approvals.get':
          return await this.#inbox.request(method, params);
        case 'approvals.resolve':
          return await this.#resolve(parsed(answerParams, params));
        case 'fleet.nodes':
          return this.#look();
        case 'fleet.order':
          return await this.#order(parsed(orderParams, params));
        default:
          throw new RpcError('METHOD_NOT_FOUND', `the panel of a fleet has no ${method.slice(0, 64)}`);
      }
    } catch (error) {
      if (error instanceof OperatorError) throw new RpcError('INVALID_PARAMS', error.message);
      throw error;
    }
  }

  async #resolve(answer: { approvalId: string; digest: string; decision: 'approve' | 'deny' }): Promise<unknown> {
    const { approvalId, decision } = answer;
    this.#answering.add(approvalId);
    try {
      const done = await this.#inbox.request('approvals.resolve', answer);
      this.#inbox.forget(approvalId);
      this.#tell('approval.resolved', { approvalId, decision, by: 'the operator' });
      return done;
    } finally {
      this.#answering.delete(approvalId);
    }
  }

  #look(): FleetAnswers['fleet.nodes'] {
    const nodes = this.#nodes.known(this.#presence, this.#options.powers.monotonicMs());
    return { nodes, problems: Object.fromEntries(this.#problems) };
  }

  async #order({ order, nodes }: OrderParams): Promise<FleetAnswers['fleet.order']> {
    return { told: await Promise.all(nodes.map((it) => obeyed(this.#nodes, it, ORDERS[order]))) };
  }

  #tell(method: string, params: unknown): void {
    for (const it of this.#pages) it.notify(method, params);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const it of this.#pages) it.destroy();
    await this.#parts[Symbol.asyncDispose]();
  }
}

const ORDERS: Readonly<Record<OrderParams['order'], Order>> = {
  pause: { kind: 'pause', cancel: false },
  kill: { kind: 'pause', cancel: true },
  resume: { kind: 'resume' },
  drain: { kind: 'drain', drain: true },
  undrain: { kind: 'drain', drain: false },
};

/** Throws RpcError INVALID_PARAMS. */
function parsed<T>(schema: { safeParse(it: unknown): { success: boolean; data?: T } }, params: unknown): T {
  const { success, data } = schema.safeParse(params);
  if (success) return data as T;
  throw new RpcError('INVALID_PARAMS', 'the page asks for something that this version does not know');
}
