import { ToolError } from '../../base/errors.ts';
import { type CallFence, type HeldLease, whyNotStart } from '../../base/fencing.ts';
import { bootMs } from '../../base/powers.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { PlacedWorkspace } from './placed-workspaces.ts';

export class Fence {
  readonly id: string;
  /** The session of the link that admitted it. */
  readonly ownerId: string;
  /** The workspace that was made for the session. */
  workspace: PlacedWorkspace | undefined;
  /** Settles when the workspace is there, or can't be made. */
  ready: Promise<void> = Promise.resolve();
  #isClosed = false;
  #lease: HeldLease | undefined;
  #call: CallFence | undefined;

  constructor(id: string, ownerId: string) {
    this.id = id;
    this.ownerId = ownerId;
  }

  /** Notes a confirmed renewal. The first one names the ownership under which the session was opened. */
  confirm({ epoch, confirmedAtMs, notAfterMs }: Params<'fleet.confirm'>): void {
    this.#lease = { epoch, confirmedAtMs };
    this.#call = { epoch: this.#call?.epoch ?? epoch, notAfterMs };
  }

  /** The session's calls start no more, and its workspace is kept or removed. */
  close(): void {
    this.#lease = undefined;
    this.#isClosed = true;
    this.workspace?.release();
    this.workspace = undefined;
  }

  /** Has a workspace made; one that comes after the fence was closed is given back. */
  make(making: Promise<PlacedWorkspace>): void {
    this.ready = making.then((made) => {
      if (this.#isClosed) made.release();
      else this.workspace = made;
    });
    // Told to who waits for it.
    this.ready.catch(() => {});
  }

  /** Throws HOST_CRASHED with `outcome: none` if a call may not start now. */
  assertMayStart(tool: string): void {
    const never = { epoch: 0, notAfterMs: 0 };
    const why = whyNotStart(this.#lease, this.#call ?? never, bootMs());
    if (why === undefined) return;
    throw new ToolError('HOST_CRASHED', `this node may not start \`${tool}\`: ${why}`, {
      suggestion: 'Nothing was done. Open a session anew, and call again.',
      details: { outcome: 'none' },
    });
  }
}
