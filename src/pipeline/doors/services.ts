/**
 * The door of local services: programs that listen on the machine's loopback, which commands reach at the same port of their own. A
 * person agrees to a port, a program and its owner; each connection finds the three the same, or is refused. A policy may list a port.
 */
import * as z from 'zod';
import type { Denial } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import type { ServiceDoor } from '../../hosts/egress.ts';
import { type NetworkLayer, refusedAddress, refusedName } from '../../policy/network.ts';
import type { Policy } from '../../policy/schema.ts';
import { EGRESS_PORT } from '../../sandbox/door.ts';
import type { DoorAnswer } from '../../sandbox/egress/messages.ts';
import type { Impact } from '../../store/approvals/approval.ts';
import { isHeadless } from '../approve/settings.ts';
import { asksOf, networkOf } from '../execute/bounds.ts';
import { reported } from '../execute/reported.ts';
import type { ClearedCall } from '../stage.ts';
import { forbiddenKindOf, kindByProcess } from './listener-kinds.ts';
import { type Listener, Listeners } from './listeners.ts';

/** Ports of one command that lead to services; native/door.c opens no more. */
const SERVICES_MAX = 16;
/** Ports looked up for one command: one that tries many is not to learn all that listens on the machine. */
const HINTS_MAX = 4;
const refusedPorts = z.array(z.int().min(1).max(65_535)).max(1_024);
/** Listeners whose kind is kept: to find it out takes connections to them. */
const KINDS_KEPT_MAX = 256;
/** Ports of the sandbox that have a meaning of their own: its proxy, and its resolver. */
const TAKEN = [EGRESS_PORT, 53];
const RULE = 'tiers.execute.network';

/** What a person is asked about a service. */
export interface ServiceQuestion {
  /** Port, program and owner: what a remembered answer is for. */
  readonly target: string;
  readonly reason: string;
  readonly impact: Impact;
}

export class LocalServices {
  readonly #powers: Powers;
  readonly #listeners: Listeners;
  /** Kinds of listeners, by their sockets. */
  readonly #kinds = new Map<string, Promise<string | undefined>>();

  constructor({ powers }: { readonly powers: Powers }) {
    this.#powers = powers;
    this.#listeners = new Listeners(powers);
  }

  /** The services that commands of a call reach under its policy; undefined for none. */
  of(call: Pick<ClearedCall, 'policyNow'>): ServiceDoor | undefined {
    const ports = [...openIn(call.policyNow()).keys()];
    return ports.length === 0 ? undefined : { ports, answer: ({ port }) => this.#answer(call.policyNow(), port) };
  }

  /** What a person is asked about the port. Throws POLICY_DENIED, INPUT_INVALID, ACCESS_DENIED. */
  async questionAbout(port: number, policy: Policy): Promise<ServiceQuestion> {
    if (!mayAsk(policy))
      throw new ToolError('POLICY_DENIED', 'the policy has nobody asked about services of this machine', {
        rule: RULE,
        suggestion: askForEntry(port),
      });
    if (openIn(policy).has(port))
      throw new ToolError('INPUT_INVALID', `commands reach 127.0.0.1:${port} already`, {
        suggestion: 'Send the command again.',
      });
    const listener = await this.#at(port);
    if (!listener)
      throw new ToolError('INPUT_INVALID', `nothing of this machine listens at port ${port} of its loopback`, {
        suggestion: 'Start the service within the command that needs it, or ask the person to start it.',
      });
    const kind = await this.#forbiddenKindOf(listener);
    if (kind !== undefined) throw new ToolError('ACCESS_DENIED', neverOpened(listener, kind), { suggestion: INSTEAD });
    const { owner, program } = listener;
    return {
      target: identityOf(listener),
      reason: 'A program of this machine listens there, and the agent asks to connect to it.',
      impact: {
        level: 'medium',
        description: `Commands connect to ${identityOf(listener)}, outside of the sandbox.`,
        warnings: [
          ...(program === undefined
            ? [`It is not seen which program of ${owner} this is; any of them is agreed to`]
            : []),
          `It does for commands whatever it does for its clients, with the rights of ${owner}`,
          'What it holds can then go wherever a door of this session is open',
        ],
      },
    };
  }

  /**
   * Says to a command that was refused connections at these ports which services of the machine are there, and how it may have them. The
   * ports come from a host, and are checked.
   */
  async hintsAt(refused: unknown, policy: Policy): Promise<Denial[]> {
    if (refused === undefined) return [];
    const ports = reported(refusedPorts, refused) ?? [];
    const found = await Promise.all([...new Set(ports)].slice(0, HINTS_MAX).map((it) => this.#at(it)));
    return found.flatMap((it) => (it ? [this.#hintAbout(it, policy)] : []));
  }

  #hintAbout(listener: Listener, policy: Policy): Denial {
    const { port } = listener;
    const by = { kind: 'connect', target: `127.0.0.1:${port}`, layer: 'sandbox', count: 1 } as const;
    const kind = kindByProcess(listener);
    if (kind !== undefined) return { ...by, reason: neverOpened(listener, kind), suggestion: INSTEAD };
    const reason = `${programOf(listener)} of this machine listens there, outside of the sandbox, whose loopback is its own`;
    if (!mayAsk(policy)) return { ...by, rule: RULE, reason, suggestion: askForEntry(port) };
    const open = `access_request ${JSON.stringify({ service: port })}`;
    return { ...by, reason, open, suggestion: `Ask for it: ${open}. Then send the command again.` };
  }

  /** Never rejects. */
  async #answer(policy: Policy, port: number): Promise<DoorAnswer> {
    const agreed = openIn(policy).get(port);
    if (agreed === undefined) return { refused: `port ${port} is not open any more` };
    const listener = await this.#at(port);
    if (!listener) return { refused: `nothing of this machine listens at port ${port} now` };
    const found = identityOf(listener);
    if (agreed !== LISTED && !agreed.includes(found))
      return { refused: `${found} listens there now, which is not what a person agreed to; ask for it again` };
    const kind = await this.#forbiddenKindOf(listener);
    if (kind !== undefined) return { refused: neverOpened(listener, kind) };
    return { open: [{ block: listener.address, ports: [port], private: true }] };
  }

  async #at(port: number): Promise<Listener | undefined> {
    return TAKEN.includes(port) ? undefined : this.#listeners.at(port);
  }

  #forbiddenKindOf(listener: Listener): Promise<string | undefined> {
    // Whose process it is may change while its sockets stay.
    const now = kindByProcess(listener);
    if (now !== undefined) return Promise.resolve(now);
    const key = `${listener.port} ${listener.sockets.join()}`;
    const known = this.#kinds.get(key);
    if (known) return known;
    if (this.#kinds.size >= KINDS_KEPT_MAX) this.#kinds.clear();
    const found = forbiddenKindOf(listener, this.#powers);
    this.#kinds.set(key, found);
    return found;
  }
}

const INSTEAD =
  'Start what is needed within the command itself, or run an image by `docker_run`; no answer opens this port.';
const askForEntry = (port: number): string =>
  `Ask the person to add \`127.0.0.1:${port}\` to ${RULE}.allow in the policy.`;
const neverOpened = (listener: Listener, kind: string): string =>
  `${programOf(listener)} at 127.0.0.1:${listener.port} is ${kind}; no answer opens it`;

/** Whether each layer of the policy has a person asked, and somebody is expected to be there. */
const mayAsk = (policy: Policy): boolean =>
  networkOf(policy) !== undefined && asksOf(policy).every((it) => it) && !isHeadless(policy);

const programOf = ({ program = 'a program', owner }: Listener): string => `${program} of ${owner}`;

/** What an answer is for: the same port, program and owner are the same service, whatever its process. */
const identityOf = (listener: Listener): string => `127.0.0.1:${listener.port} ${programOf(listener)}`;

/** A port that the policy itself lists, whoever listens there. */
const LISTED = 'listed';

/** The ports that commands reach, and what may listen there. */
function openIn(policy: Policy): Map<number, readonly string[] | typeof LISTED> {
  const open = new Map<number, string[] | typeof LISTED>();
  for (const target of mayAsk(policy) ? (policy.services ?? []) : []) {
    const port = Number(/^127\.0\.0\.1:(\d+) /.exec(target)?.[1]);
    const known = open.get(port);
    if (known && known !== LISTED) known.push(target);
    else open.set(port, [target]);
  }
  for (const port of listedPorts(networkOf(policy) ?? [])) open.set(port, LISTED);
  return new Map([...open].slice(0, SERVICES_MAX));
}

/** The ports of this machine's loopback that every layer lists. */
function listedPorts(layers: readonly NetworkLayer[]): number[] {
  const ports = [...new Set(layers.flat().flatMap((it) => it.ports))].filter((it) => !TAKEN.includes(it));
  const isListed = (port: number) =>
    ['127.0.0.1', 'localhost'].some(
      (host) =>
        refusedName(layers, { host, port }) === undefined &&
        refusedAddress(layers, { host, port, address: '127.0.0.1' }) === undefined,
    );
  return ports.filter(isListed).sort((a, b) => a - b);
}
