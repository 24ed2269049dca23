/**
 * Browsers that open pages for calls: each call gets a browser host of its own, which ends with it. What a page connects
 * to goes through the egress proxy; the host's answers are checked like a stranger's.
 */

import type { HostStatus } from '../../../base/call.ts';
import { ToolError } from '../../../base/errors.ts';
import type { Powers } from '../../../base/powers.ts';
import type { EgressLease } from '../../../hosts/egress.ts';
import { Host } from '../../../hosts/host.ts';
import { NO_VIEW } from '../../../hosts/host-masks.ts';
import { singleStatus } from '../../../hosts/host-process.ts';
import type { JobResult } from '../../../hosts/job.ts';
import { end, unlessAborted } from '../../../hosts/shutdown.ts';
import type { NetworkLayer } from '../../../policy/network.ts';
import { findChromium, INSTALL_CHROMIUM } from '../../../sandbox/chromium.ts';
import { EGRESS_PROXY_URL } from '../../../sandbox/door.ts';
import type { EgressReport } from '../../../sandbox/egress/proxy-messages.ts';
import type { DaemonParts } from '../../capability.ts';
import type { BrowserSetup, VisitJob } from './messages.ts';

export type BrowsersOptions = Pick<DaemonParts, 'sandbox' | 'egress' | 'limits'> & {
  /** Node and its arguments for a browser host. */
  readonly program: readonly string[];
};

export interface BrowserRun {
  /** Absolute path; the browser runs as its owner. */
  readonly workspace: string;
  /** What the page and everything in it may connect to. */
  readonly layers: readonly NetworkLayer[];
  readonly signal: AbortSignal;
  readonly onStarted: () => void;
}

export interface BrowserEnd {
  readonly result: JobResult;
  readonly pid: number;
  readonly egress: EgressReport | 'lost';
}

export class Browsers implements AsyncDisposable {
  readonly #options: BrowsersOptions;
  readonly #powers: Powers;
  readonly #hosts = new Set<Host>();

  constructor(options: BrowsersOptions, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
  }

  /**
   * Opens a page in a new browser, which has ended when this settles; `toJob` is asked for the job when the browser is
   * there. Throws PROGRAM_MISSING, SANDBOX_UNAVAILABLE, HOST_CRASHED, QUEUE_FULL, the signal's reason.
   */
  async run(toJob: () => VisitJob, { workspace, layers, signal, onStarted }: BrowserRun): Promise<BrowserEnd> {
    const { result, pid, egress } = await this.#options.egress.lend(layers, signal, async (lease) => {
      const host = this.#start(workspace, lease);
      try {
        await unlessAborted(host.ready, signal);
        const running = host.run({ tool: 'visit', input: toJob() }, { signal });
        onStarted();
        const ended = await unlessAborted(running, signal);
        if ('crashed' in ended) throw crashed(host.pid);
        return { result: ended.result, pid: host.pid };
      } finally {
        await end(host);
      }
    });
    return { result, pid, egress };
  }

  /** Status entries, like those of tier hosts. */
  status(): HostStatus[] {
    return [...this.#hosts].map((host) => singleStatus(host, { tier: 'browser', workspace: host.workspace }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#hosts].map(end));
  }

  #start(workspace: string, { token, line }: EgressLease): Host {
    const { sandbox, program, limits } = this.#options;
    const chromium = findChromium();
    if (!chromium)
      throw new ToolError('PROGRAM_MISSING', 'there is no Chromium on this machine', {
        suggestion: INSTALL_CHROMIUM,
        details: { program: 'chromium' },
      });
    const browser: BrowserSetup = { program: chromium.program, proxy: EGRESS_PROXY_URL };
    const host = new Host({
      // The sandbox of a browser does not depend on the tier.
      tier: 'external_api',
      workspace,
      limits,
      powers: this.#powers,
      egress: line.stream,
      start: (stdio) => sandbox.startBrowser({ program, chromium, workspace, egressToken: token }, stdio),
      setup: { tier: 'external_api', view: NO_VIEW, limits, browser },
    });
    this.#hosts.add(host);
    void host.gone.then(() => this.#hosts.delete(host));
    return host;
  }
}

function crashed(hostPid: number): ToolError {
  return new ToolError('HOST_CRASHED', 'the browser ended while it showed the page', {
    suggestion: 'The page may be made for that. Nothing of this machine was within its reach.',
    details: { hostPid },
  });
}
