/**
 * The gateway: clients connect to it as to a daemon, and it places each session on a node. It keeps nothing: which nodes
 * there are it hears, and who may be one stands in the roster. It decides no call and sees no key of a node.
 */
import type { Socket } from 'node:net';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { type Powers, pause } from '../../base/powers.ts';
import type { OpeningOptions } from '../../faces/mcp/opening-options.ts';
import { listenSocket } from '../../wire/transport/unix-socket.ts';
import type { Credential } from '../credential.ts';
import { type FleetLink, Unanswered } from '../link.ts';
import { connectMember, isSignedBy, type MemberKeys, memberKeys } from '../nats.ts';
import { type Candidate, place } from '../placement.ts';
import { Presence, presenceAt } from '../presence.ts';
import { keyOf } from '../roster.ts';
import { RosterCopy } from '../roster-copy.ts';
import { started } from '../started.ts';
import { publisherOf, subjects } from '../subjects.ts';
import { fromWire, toWire } from '../wire.ts';
import { originHash, parseSource, placeOf } from '../workspaces/source.ts';
import { FlowGate } from './flow-gate.ts';
import { McpRelay } from './mcp-relay.ts';
import { OpenStreams } from './open-streams.ts';
import { type McpChoice, type Opening, openingAnswer, transcriptOf } from './opening.ts';
import { type Hello, type OpenedSession, Relay } from './relay.ts';
import { createSessionKeys, Sealing } from './sealing.ts';
import { SessionStream } from './stream.ts';

export interface GatewayOptions {
  readonly credential: Credential;
  /** Path of the socket for clients. */
  readonly socket: string;
  /** Path of the socket for clients of MCP. */
  readonly mcpSocket: string;
  /** Labels that the nodes of all sessions must have. */
  readonly labels: readonly string[];
  readonly limits: Limits;
  readonly powers: Powers;
}

const OPEN_MS = 15_000;
const LOOK_MS = 100;
/** Messages that a node may send before its answer has come: the token, and signs of life. */
const EARLY_MAX = 8;
/** Memory that a node must have free to get a session. */
const FREE_MEMORY_MIN = 256 * 1024 * 1024;

interface Placed {
  readonly node: string;
  readonly relay: Pick<Relay, 'lose'>;
}

export class FleetGateway implements AsyncDisposable {
  readonly #options: GatewayOptions;
  readonly #parts = new AsyncDisposableStack();
  readonly #presence: Presence;
  readonly #streams: OpenStreams;
  /** What came early for sessions that are being opened. */
  readonly #early = new Map<string, Uint8Array[]>();
  readonly #placed = new Set<Placed>();
  readonly #mcpClients = new Set<Socket>();
  #roster!: RosterCopy;
  #keys!: MemberKeys;
  /** A connection to the bus for sessions alone, so that their output keeps no heartbeat waiting. */
  #flow!: FleetLink;
  #gate!: FlowGate;

  private constructor(options: GatewayOptions) {
    this.#options = options;
    this.#presence = new Presence(options.limits.fleetMembersMax);
    this.#streams = this.#parts.use(new OpenStreams(options.powers));
  }

  /** Starts to serve clients. Throws FleetError, SocketError. */
  static async start(options: GatewayOptions): Promise<FleetGateway> {
    return started(new FleetGateway(options), (it) => it.#start());
  }

  async #start(): Promise<void> {
    const { credential, socket, mcpSocket, limits, powers } = this.#options;
    this.#keys = await memberKeys(credential.seed);
    const connect = async () => this.#parts.use(await connectMember(credential, { limits, powers }));
    const link = await connect();
    this.#flow = await connect();
    this.#gate = new FlowGate(this.#flow, limits.fleetUnflushedBytes);
    this.#roster = this.#parts.use(new RosterCopy({ link, operatorKey: credential.operatorKey, limits, powers }));
    this.#parts.use(
      link.subscribe(subjects.heartbeat('*'), ({ subject, data }) =>
        this.#presence.hear(publisherOf(subject), fromWire(data), powers.monotonicMs()),
      ),
    );
    this.#parts.use(
      this.#flow.subscribe(subjects.toGateway(credential.name, '*', '*'), ({ subject, data }) => {
        const session = publisherOf(subject);
        const early = this.#early.get(session);
        if (!early) this.#streams.receive(session, data);
        else if (early.length < EARLY_MAX) early.push(data);
      }),
    );
    const timer = powers.every(LOOK_MS, () => this.#look());
    this.#parts.defer(() => timer.cancel());
    this.#parts.use(await listenSocket(socket, (client) => this.#accept(client)));
    this.#parts.use(await listenSocket(mcpSocket, (client) => this.#acceptMcp(client), { allowHalfOpen: true }));
  }

  /** Tells the clients of lost nodes. */
  #look(): void {
    const now = this.#options.powers.monotonicMs();
    const lost = new Set(
      this.#presence.all.filter((it) => presenceAt(it.heardAtMs, now) === 'lost').map((it) => it.node),
    );
    for (const it of this.#placed) if (lost.has(it.node)) it.relay.lose(`${it.node} was not heard`);
  }

  #accept(client: Socket): void {
    const { limits, powers } = this.#options;
    const relay: Relay = new Relay(client, { limits, powers, open: (hello) => this.#open(hello, relay) });
  }

  #acceptMcp(client: Socket): void {
    const { limits, powers } = this.#options;
    const { mcpConnectionsMax } = limits;
    if (this.#mcpClients.size >= mcpConnectionsMax) return void client.destroy();
    this.#mcpClients.add(client);
    client.once('close', () => this.#mcpClients.delete(client));
    const open = async ({ workspace, tools, readOnly, policy, mode }: OpeningOptions) => {
      const choice = { tools, readOnly, policy, mode };
      return (await this.#place(placeOf(workspace), relay, choice)).stream;
    };
    const relay: McpRelay = new McpRelay(client, { limits, powers, open });
  }

  async #open(hello: Hello, relay: Relay): Promise<OpenedSession> {
    const at = placeOf(hello.workspace);
    const placed = await this.#place(at, relay);
    // A workspace that the node makes has no path that the gateway knows.
    const isFolder = at.path !== undefined && parseSource(at.path) === undefined;
    return { ...placed, hello: { ...hello, workspace: isFolder ? at.path : undefined } };
  }

  /** Places a session and opens it on its node. Throws RpcError OVERLOADED if there is none for it. */
  async #place(
    { node: at, path }: Place,
    relay: Placed['relay'],
    mcp?: McpChoice,
  ): Promise<Pick<OpenedSession, 'node' | 'stream'>> {
    const { powers, labels, limits } = this.#options;
    const bounds = { sessionsMax: limits.fleetSessionsMax, freeMemoryMin: FREE_MEMORY_MIN };
    const source = path === undefined ? undefined : parseSource(path);
    if (source?.kind === 'kept' && at === undefined)
      throw new RpcError('INVALID_PARAMS', 'a kept workspace is on one node: NODE:kept/ID');
    const origin = source?.kind === 'git' ? originHash(source.url) : undefined;
    const wanted = { key: powers.uuid(), labels, node: at, origin };
    const placed = place(wanted, await this.#candidates(), bounds);
    if ('refused' in placed) throw new RpcError('OVERLOADED', placed.refused);
    const { node } = placed;
    const stream = await this.#openOn(node, { workspace: path, mcp });
    const entry = { node, relay };
    this.#placed.add(entry);
    stream.once('close', () => this.#placed.delete(entry));
    return { node, stream };
  }

  /** The nodes of the roster that were heard; waits for the first heartbeats of a bus that was just reached. */
  async #candidates(): Promise<Candidate[]> {
    const { powers } = this.#options;
    for (let tries = 0; tries < 20 && (this.#presence.all.length === 0 || !this.#roster.now); tries++)
      await pause(LOOK_MS, powers);
    const roster = this.#roster.now;
    const now = powers.monotonicMs();
    return this.#presence.all.flatMap(({ node, heardAtMs, beat }) => {
      const member = roster?.members.find((it) => it.role === 'node' && it.name === node);
      if (!member || !roster) return [];
      const hasPolicy = roster.policy === undefined || roster.policy === beat.policy;
      return [{ ...beat, name: node, labels: member.labels, presence: presenceAt(heardAtMs, now), hasPolicy }];
    });
  }

  async #openOn(node: string, wanted: Pick<Opening, 'workspace' | 'mcp'>): Promise<SessionStream> {
    const { credential, powers, limits } = this.#options;
    const key = this.#roster.now && keyOf(this.#roster.now, 'node', node);
    if (key === undefined) throw new RpcError('OVERLOADED', `the roster has no node ${node}`);
    const own = createSessionKeys();
    const session = powers.secret().slice(0, 32);
    const atMs = powers.now();
    const asked: Opening = { gateway: credential.name, node, session, key: own.publicKey, atMs, ...wanted };
    const signature = this.#keys.sign(transcriptOf(credential.fleet, asked));
    const early: Uint8Array[] = [];
    // The node may send before its answer has come.
    this.#early.set(session, early);
    try {
      const answer = openingAnswer.safeParse(fromWire(await this.#sent(node, { opening: asked, signature })));
      if (!answer.success) throw new RpcError('OVERLOADED', `${node} answered something else`);
      if ('refused' in answer.data) throw new RpcError('OVERLOADED', `${node} refused: ${answer.data.refused}`);
      const transcript = transcriptOf(credential.fleet, asked, answer.data.key);
      if (!(await isSignedBy(key, transcript, answer.data.signature)))
        throw new RpcError('OVERLOADED', `somebody else than ${node} answered`);
      const sealing = new Sealing('gateway', own, answer.data.key, transcript);
      const subject = subjects.toNode(node, session);
      const send = (data: Uint8Array) => this.#flow.publish(subject, data);
      const stream = new SessionStream({ sealing, windowBytes: limits.fleetWindowBytes, gate: this.#gate, send });
      stream.on('error', (error) => powers.log.warn({ node, reason: error.message }, 'a session ended'));
      this.#streams.add(session, stream);
      for (const it of early) stream.receive(it);
      return stream;
    } finally {
      this.#early.delete(session);
    }
  }

  async #sent(node: string, message: object): Promise<Uint8Array> {
    try {
      return await this.#flow.request(subjects.open(node), toWire(message), OPEN_MS);
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error;
      throw new RpcError('OVERLOADED', `${node} can't be reached: ${error.message}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const it of this.#placed) it.relay.lose('the gateway ends');
    await this.#parts[Symbol.asyncDispose]();
  }
}

interface Place {
  readonly node?: string;
  readonly path?: string;
}
