/**
 * Ports of commands in the background that are open for a person. The daemon takes no connections itself: it gives an operator the
 * path of a Unix socket, at which a relay in the command's network takes them, and which only the daemon's own user can reach.
 */
import { join } from 'node:path';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { BackgroundCommand, BackgroundCommands } from '../../pipeline/execute/background/background-commands.ts';
import { mayForward } from '../../policy/schema.ts';
import type { AuditLog } from '../../store/audit/log.ts';
import type { Previews } from '../../store/previews.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { ClientLink } from '../client-link.ts';
import type { Session } from '../session.ts';

export interface ForwardsParts {
  readonly background: BackgroundCommands;
  readonly previews: Previews;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly auditLog: Pick<AuditLog, 'append'>;
}

/** A port from its opening until its opener has heard of its end. */
interface OpenPort {
  readonly session: Session;
  readonly controller: AbortController;
  /** Why it ended; never rejects. */
  readonly ended: Promise<string>;
}

const CLOSED = 'it was closed';

export class Forwards {
  readonly #parts: ForwardsParts;
  readonly #open = new Map<string, OpenPort>();

  constructor(parts: ForwardsParts) {
    this.#parts = parts;
  }

  readonly methods = {
    'background.list': () => this.#list(),
    'forward.open': ({ session }: ClientLink, params: Params<'forward.open'>) => this.#begin(session, params),
    'forward.wait': ({ session }: ClientLink, { forwardId }: Params<'forward.wait'>) => this.#wait(session, forwardId),
  };

  /** Closes the ports that a session opened. */
  endSession(sessionId: string): void {
    for (const [id, it] of this.#open) {
      if (it.session.options.id !== sessionId) continue;
      it.controller.abort(new Error(CLOSED));
      void it.ended.then(() => this.#open.delete(id));
    }
  }

  /** Answers `background.list`. */
  async #list(): Promise<{ commands: object[] }> {
    const { background } = this.#parts;
    const states = await background.statesOf(background.all);
    const toListed = ({ place: _, keeper: __, policyNow: ___, now, ...of }: (typeof states)[number]) => {
      const { isDetached, hasNetwork, ...command } = of;
      const { exited, ports = [] } = now;
      return { ...command, detached: isDetached, network: hasNetwork, exited, ports };
    };
    return { commands: states.map(toListed) };
  }

  /** Answers `forward.open`, once connections are taken. Throws RpcError. */
  async #begin(session: Session, { callId, port }: Params<'forward.open'>) {
    const { background, limits, powers, previews } = this.#parts;
    const command = theOne(callId, background.running(callId));
    if (!mayForward(command.policyNow()))
      throw new RpcError('FORBIDDEN', 'the policy of this command denies it: tiers.execute.forward');
    if (this.#open.size >= limits.forwardsMax)
      throw new RpcError('OVERLOADED', `${this.#open.size} ports are open, which is the maximum`);
    // The folder of previews is the one that the daemon and the host share, and that no command sees.
    const folder = previews.folderOf(command.workspace);
    if (folder === undefined)
      throw new RpcError('INVALID_PARAMS', 'a daemon of root opens no ports in workspaces of other users');
    const forwardId = powers.uuid();
    const socket = `${forwardId}.sock`;
    const controller = new AbortController();
    const { promise: isOpen, resolve: onOpen } = Promise.withResolvers<true>();
    const ended = background
      .forward(command, { port, socket }, { signal: controller.signal, onOpen: () => onOpen(true) })
      .then(
        (why) => (why === 'command' ? 'the command ended' : 'its relay ended'),
        (error: unknown) => (error instanceof ToolError ? error.message : CLOSED),
      );
    this.#open.set(forwardId, { session, controller, ended });
    this.#record(session, command, { event: 'forwarded', port });
    void ended.then((reason) => this.#record(session, command, { event: 'forward-ended', port, reason }));
    const first = await Promise.race([isOpen, ended]);
    if (first !== true) {
      this.#open.delete(forwardId);
      throw new RpcError('INVALID_PARAMS', `port ${port} could not be opened: ${first}`);
    }
    const [state] = await background.statesOf([command]);
    const { handle } = command;
    const ports = state?.now.ports ?? [];
    return { forwardId, path: join(folder, socket), handle, callId: command.callId, command: command.command, ports };
  }

  #record({ options }: Session, { callId, handle }: BackgroundCommand, detail: object): void {
    const { id: sessionId, principal } = options;
    try {
      this.#parts.auditLog.append({ kind: 'session', sessionId, principal, callId, detail: { ...detail, handle } });
    } catch (error) {
      // STORE_FAILED: the port is open already, or closed.
      this.#parts.powers.log.error({ error, callId }, 'an open port was not recorded');
    }
  }

  /** Answers `forward.wait` when the port is closed. Throws RpcError. */
  async #wait(session: Session, forwardId: string): Promise<{ reason: string }> {
    const open = this.#open.get(forwardId);
    if (open?.session !== session) throw new RpcError('INVALID_PARAMS', `this session has no open port ${forwardId}`);
    const reason = await open.ended;
    this.#open.delete(forwardId);
    return { reason };
  }
}

/** Throws RpcError INVALID_PARAMS. */
function theOne(id: string, [first, ...others]: readonly BackgroundCommand[]): BackgroundCommand {
  if (first && others.length === 0) return first;
  if (!first) throw new RpcError('INVALID_PARAMS', `no command in the background is running for ${id}`);
  const handles = [first, ...others].map(({ handle }) => handle).join(', ');
  throw new RpcError('INVALID_PARAMS', `several sessions have such a call; name a handle: ${handles}`);
}
