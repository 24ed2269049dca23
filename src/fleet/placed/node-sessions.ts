/** Sessions that gateways open on this node: each is a session of the daemon, fenced by the lease of its workspace. */
import { createHash } from 'node:crypto';
import { RPC_CODES } from '../../base/errors.ts';
import type { HeldLease } from '../../base/fencing.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { openLine } from '../../faces/mcp/bridge-messages.ts';
import { toFrame } from '../../wire/protocol/frame.ts';
import { connectUnix } from '../../wire/transport/unix-socket.ts';
import type { Credential } from '../credential.ts';
import type { BusMessage, FleetLink } from '../link.ts';
import { isSignedBy, type MemberKeys } from '../nats.ts';
import { LOST_MS } from '../presence.ts';
import { keyOf, type Roster } from '../roster.ts';
import { publisherOf, subjects } from '../subjects.ts';
import { type DaemonClient, fromWire, toWire } from '../wire.ts';
import { passOnWithToken } from './first-hello.ts';
import { FlowGate } from './flow-gate.ts';
import { OpenStreams } from './open-streams.ts';
import { OPENING_MS, type Opening, type OpeningAnswer, signedOpening, transcriptOf } from './opening.ts';
import type { OwnedWorkspaces } from './owned-workspaces.ts';
import { createSessionKeys, Sealing } from './sealing.ts';
import { SessionStream } from './stream.ts';

export interface NodeSessionsOptions {
  readonly credential: Credential;
  readonly keys: MemberKeys;
  /** A connection to the bus for sessions alone. */
  readonly link: FleetLink;
  readonly daemon: Pick<DaemonClient, 'request'>;
  /** The daemon's socket. */
  readonly socket: string;
  /** The daemon's socket for MCP. */
  readonly mcpSocket: string;
  readonly owned: OwnedWorkspaces;
  readonly limits: Limits;
  readonly powers: Powers;
  roster(): Roster | undefined;
  isDraining(): boolean;
  /** Why this node may take no sessions under its policy; undefined if it may. */
  obstacle(): Promise<string | undefined>;
}

export class NodeSessions implements Disposable {
  readonly #options: NodeSessionsOptions;
  readonly #parts = new DisposableStack();
  readonly #open: OpenStreams;
  readonly #gate: FlowGate;

  constructor(options: NodeSessionsOptions) {
    this.#options = options;
    const { link, credential, limits, powers } = options;
    this.#open = this.#parts.use(new OpenStreams(powers));
    this.#gate = new FlowGate(link, limits.fleetUnflushedBytes);
    this.#parts.use(link.subscribe(subjects.open(credential.name), (message) => void this.#answer(message)));
    this.#parts.use(
      link.subscribe(subjects.toNode(credential.name, '*'), ({ subject, data }) =>
        this.#open.receive(publisherOf(subject), data),
      ),
    );
  }

  async #answer(message: BusMessage): Promise<void> {
    const { log } = this.#options.powers;
    const answer = await this.#begin(fromWire(message.data)).catch((error: Error): OpeningAnswer => {
      log.warn({ reason: error.message }, 'a session of the fleet could not be opened');
      return { refused: error.message.slice(0, 1024) };
    });
    message.respond(toWire(answer));
  }

  /** Opens a session for a gateway. Throws if the gateway is none of the fleet, and if the session can't be opened. */
  async #begin(given: unknown): Promise<OpeningAnswer> {
    const { credential, keys, daemon, owned, limits } = this.#options;
    const asked = await this.#checked(given);
    const { session, workspace } = asked;
    if (this.#options.isDraining()) throw new Error(`${credential.name} is draining`);
    const obstacle = await this.#options.obstacle();
    if (obstacle !== undefined) throw new Error(`${credential.name} ${obstacle}`);
    if (this.#open.size >= limits.fleetSessionsMax)
      throw new Error(`${credential.name} has ${this.#open.size} sessions of the fleet, which is the maximum`);
    const own = createSessionKeys();
    const transcript = transcriptOf(credential.fleet, asked, own.publicKey);
    const stream = this.#streamOf(asked, new Sealing('node', own, asked.key, transcript));
    this.#open.add(session, stream);
    try {
      const made = workspace === undefined || workspace.startsWith('/') ? {} : { workspace, node: credential.name };
      const { token, id } = (await daemon.request('fleet.admit', made)) as { token: string; id: string };
      stream.once('close', () => void daemon.request('fleet.close', { id }).catch(() => {}));
      const confirm = (lease: HeldLease) => this.#confirm(id, stream, lease);
      const user = {
        // Without a confirmation the daemon starts nothing.
        confirmed: (it: HeldLease) => void confirm(it).catch(() => {}),
        lost: () => stream.destroy(),
      };
      const { lease, release } = await owned.own(
        leaseName(credential.name, 'workspace' in made ? session : workspace),
        user,
      );
      stream.once('close', release);
      if (stream.destroyed) release();
      await confirm(lease);
      if (!('workspace' in made)) await this.#connect(stream, asked, token);
      else if (asked.mcp) await this.#connect(stream, { ...asked, workspace: await this.#made(id) }, token);
      else void this.#connectWhenMade(stream, { ...asked, id, token });
    } catch (error) {
      stream.destroy();
      throw error;
    }
    return { key: own.publicKey, signature: keys.sign(transcript) };
  }

  /** What a gateway of the fleet asks this node, and asked a moment ago. Throws otherwise. */
  async #checked(given: unknown): Promise<Opening> {
    const { credential, roster, powers } = this.#options;
    const parsed = signedOpening.safeParse(given);
    if (!parsed.success) throw new Error('this version of Ringfence does not know what the gateway asks');
    const { opening: asked, signature } = parsed.data;
    const known = roster();
    const key = known && keyOf(known, 'gateway', asked.gateway);
    if (key === undefined) throw new Error(`${asked.gateway} is no gateway of this fleet`);
    if (!(await isSignedBy(key, transcriptOf(credential.fleet, asked), signature)))
      throw new Error(`somebody else than the gateway ${asked.gateway} asks`);
    if (asked.node !== credential.name) throw new Error(`the session is for ${asked.node}, not for ${credential.name}`);
    const ageMs = Math.abs(powers.now() - asked.atMs);
    if (ageMs > OPENING_MS)
      throw new Error(`the clocks of gateway and node differ by ${ageMs} ms; at most ${OPENING_MS} may`);
    if (this.#open.has(asked.session)) throw new Error('the session is open already');
    return asked;
  }

  #streamOf({ gateway, session }: Opening, sealing: Sealing): SessionStream {
    const { link, credential, limits, powers } = this.#options;
    const subject = subjects.toGateway(gateway, credential.name, session);
    const send = (data: Uint8Array) => link.publish(subject, data);
    const stream = new SessionStream({ sealing, windowBytes: limits.fleetWindowBytes, gate: this.#gate, send });
    stream.on('error', (error) => powers.log.warn({ session, reason: error.message }, 'a session of the fleet ended'));
    return stream;
  }

  /** Tells the daemon that calls of a session may start: until its gateway counts as gone, and with it whoever waits. */
  async #confirm(id: string, stream: SessionStream, lease: HeldLease): Promise<void> {
    const notAfterMs = stream.heardAtMs + LOST_MS;
    await this.#options.daemon.request('fleet.confirm', { id, ...lease, notAfterMs });
  }

  /** The folder that the daemon makes for a session, once it is there. */
  async #made(id: string): Promise<string> {
    const { workspace } = (await this.#options.daemon.request('fleet.ready', { id })) as { workspace: string };
    return workspace;
  }

  /** Connects the session once its workspace is made, which may take minutes, or tells the gateway why that can't be. */
  async #connectWhenMade(stream: SessionStream, { id, token, ...asked }: Opening & { id: string; token: string }) {
    try {
      await this.#made(id);
      if (!stream.destroyed) await this.#connect(stream, asked, token);
    } catch (error) {
      const { message, code = RPC_CODES.OVERLOADED } = error as Error & { code?: number };
      if (!stream.destroyed) stream.end(toFrame({ refused: { code, message } }, this.#options.limits.frameBytesMax));
    }
  }

  /**
   * Connects the session to the daemon. The gateway opens it with the token, which nobody else can read; a session of MCP
   * is opened here, since the daemon takes a connection without a token for a client of this machine.
   */
  async #connect(stream: SessionStream, { workspace, mcp }: Opening, token: string): Promise<void> {
    const { socket: path, mcpSocket, limits } = this.#options;
    const { socket } = await connectUnix(mcp ? mcpSocket : path);
    if (mcp) {
      socket.write(openLine({ ...mcp, workspace, token }));
      stream.pipe(socket);
    } else {
      stream.write(toFrame({ token }, limits.frameBytesMax));
      passOnWithToken(stream, socket, token, limits);
    }
    socket.pipe(stream);
    socket.once('close', () => stream.destroy());
    socket.on('error', () => stream.destroy());
    stream.once('close', () => socket.destroy());
  }

  [Symbol.dispose](): void {
    this.#parts[Symbol.dispose]();
  }
}

/** The name of a workspace's lease. A folder of one node is another one than that of another node. */
const leaseName = (node: string, workspace = ''): string =>
  createHash('sha256')
    .update(JSON.stringify([node, workspace]))
    .digest('hex');
