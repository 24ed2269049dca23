/**
 * The link of a daemon to its fleet: tells the bus how the daemon is, obeys the operator's signed orders, and ships the
 * audit log. It is an operator of its own daemon and nothing more, so that the daemon works on when the bus is gone.
 */

import { availableParallelism, freemem, loadavg } from 'node:os';
import { join } from 'node:path';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { AuditShipper } from './audit-shipper.ts';
import type { Credential } from './credential.ts';
import type { BusMessage, FleetLink } from './link.ts';
import { connectMember, type MemberKeys, memberKeys } from './nats.ts';
import { NodeOrders } from './node-orders.ts';
import { NodeState } from './node-state.ts';
import { NodeSessions } from './placed/node-sessions.ts';
import { OwnedWorkspaces } from './placed/owned-workspaces.ts';
import { type FollowedPolicy, NodePolicy } from './policy/node-policy.ts';
import { HEARTBEAT_MS, type Heartbeat, WARM_MAX } from './presence.ts';
import { RosterCopy } from './roster-copy.ts';
import { started } from './started.ts';
import { subjects } from './subjects.ts';
import { type DaemonClient, fromWire, toWire } from './wire.ts';

export interface NodeOptions {
  readonly credential: Credential;
  /** The daemon's state directory. */
  readonly stateDir: string;
  readonly daemon: DaemonClient;
  /** The daemon's socket. */
  readonly socket: string;
  /** The daemon's socket for MCP. */
  readonly mcpSocket: string;
  readonly limits: Limits;
  readonly powers: Powers;
}

export class FleetNode implements AsyncDisposable {
  readonly #parts = new AsyncDisposableStack();
  readonly #options: NodeOptions;
  readonly #epoch: string;
  readonly #state: NodeState;
  #policy: NodePolicy | undefined;
  #isBeating = false;

  private constructor(options: NodeOptions) {
    this.#options = options;
    this.#epoch = options.powers.uuid();
    this.#state = new NodeState(join(options.stateDir, 'fleet/state.json'));
  }

  /** Links a daemon to its fleet; the bus may be away. Throws FleetError. */
  static async start(options: NodeOptions): Promise<FleetNode> {
    return started(new FleetNode(options), (it) => it.#connect());
  }

  async #connect(): Promise<void> {
    const { credential, limits, powers } = this.#options;
    const keys = await memberKeys(credential.seed);
    const connect = async () => this.#parts.use(await connectMember(credential, { limits, powers }));
    const link = await connect();
    // What sessions send would keep heartbeats, questions, orders and records waiting on their connection.
    const flow = await connect();
    this.#listen(link, keys);
    this.#tellQuestions(link);
    this.#ship(link, keys);
    this.#serveSessions({ link, flow }, keys);
    this.#beat(link);
  }

  /** Obeys orders one after the other, so that a later one can't overtake an earlier one. */
  #listen(link: FleetLink, keys: MemberKeys): void {
    const { credential } = this.#options;
    const orders = new NodeOrders({
      ...this.#options,
      keys,
      state: this.#state,
      operatorKey: credential.operatorKey,
    });
    let last: Promise<void> = Promise.resolve();
    let waiting = 0;
    const hear = (message: BusMessage) => {
      if (waiting >= ORDERS_WAITING_MAX) return message.respond(toWire({ refused: 'too many orders wait' }));
      waiting += 1;
      last = last.then(async () => {
        message.respond(toWire(await orders.obey(fromWire(message.data))));
        waiting -= 1;
      });
    };
    this.#parts.use(link.subscribe(subjects.order(credential.name), hear));
  }

  /** Says whenever the questions have changed; who wants to know them asks by an order. */
  #tellQuestions(link: FleetLink): void {
    const { daemon, credential } = this.#options;
    const ended = new AbortController();
    this.#parts.defer(() => ended.abort());
    const subject = subjects.questions(credential.name);
    void (async () => {
      for await (const _ of daemon.notifications(['approvals'], { signal: ended.signal }))
        link.publish(subject, toWire({}));
    })().catch((error: Error) =>
      this.#options.powers.log.warn({ reason: error.message }, 'questions are told no more'),
    );
  }

  #beat(link: FleetLink): void {
    const { powers } = this.#options;
    const timer = powers.every(HEARTBEAT_MS, () => void this.#beatOnce(link));
    this.#parts.defer(() => timer.cancel());
    void this.#beatOnce(link);
  }

  /** A heartbeat says that the daemon has just answered; while it does not, none is sent. */
  async #beatOnce(link: FleetLink): Promise<void> {
    if (this.#isBeating) return;
    this.#isBeating = true;
    const { daemon, credential, powers } = this.#options;
    try {
      const status = (await daemon.request('status', {})) as DaemonStatus;
      const obstacle = this.#policy?.obstacleOf(status.policy);
      const beat: Heartbeat = {
        epoch: this.#epoch,
        version: status.version,
        policy: status.policy.version,
        sessions: status.sessions,
        running: status.calls.running,
        queued: status.calls.queued,
        questions: status.calls.blocked,
        paused: status.paused !== undefined,
        draining: this.#state.isDraining,
        obstacle,
        load: (loadavg()[0] ?? 0) / availableParallelism(),
        freeMemory: freemem(),
        ...(status.warm?.length && { warm: status.warm.slice(0, WARM_MAX) }),
      };
      link.publish(subjects.heartbeat(credential.name), toWire(beat));
    } catch (error) {
      powers.log.warn({ reason: (error as Error).message }, 'the daemon did not answer; no heartbeat is sent');
    } finally {
      this.#isBeating = false;
    }
  }

  #ship(link: FleetLink, keys: MemberKeys): void {
    const { credential, daemon, limits, powers } = this.#options;
    this.#parts.use(
      new AuditShipper({ fleet: credential.fleet, node: credential.name, keys, link, daemon, limits, powers }),
    );
  }

  /** Takes sessions that gateways of the fleet place here. */
  #serveSessions({ link, flow }: { link: FleetLink; flow: FleetLink }, keys: MemberKeys): void {
    const { credential, daemon, powers, limits } = this.#options;
    const { operatorKey, name } = credential;
    const copy = this.#parts.use(new RosterCopy({ link, operatorKey, limits, powers }));
    const owned = this.#parts.use(new OwnedWorkspaces(link.leases, name, powers));
    const policy = this.#parts.use(new NodePolicy({ ...this.#options, link, roster: () => copy.now }));
    this.#policy = policy;
    const ways = {
      roster: () => copy.now,
      isDraining: () => this.#state.isDraining,
      obstacle: async () => policy.obstacleOf(((await daemon.request('status', {})) as DaemonStatus).policy),
    };
    this.#parts.use(new NodeSessions({ ...this.#options, ...ways, keys, link: flow, owned }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts[Symbol.asyncDispose]();
  }
}

/** Orders that wait for the ones before them; the operator sends them one by one. */
const ORDERS_WAITING_MAX = 64;

/** What the link reads of the daemon's answer to `status`. */
interface DaemonStatus {
  readonly version: string;
  readonly sessions: number;
  readonly calls: { readonly queued: number; readonly running: number; readonly blocked: number };
  readonly paused?: object;
  readonly policy: FollowedPolicy;
  readonly warm?: readonly string[];
}
