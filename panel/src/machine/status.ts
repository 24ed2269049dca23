/** What the daemon says of itself, read again and again while the page is looked at. */
import { signal } from '@preact/signals';
import { request } from '../connection.ts';
import { fleet } from '../fleet/fleet-name.ts';
import type { Answer } from '../messages.ts';

const EVERY_MS = 3_000;

type Host = Readonly<Record<'tier' | 'workspace', string>> &
  Readonly<Record<'pid' | 'threads' | 'busy', number>> &
  Readonly<Record<'rssBytes' | 'cpuMs' | 'restarts', number>>;

export interface OpenSession {
  readonly sessionId: string;
  readonly client: string;
  readonly principal: string;
  readonly role: string;
  readonly workspace: string;
  readonly calls: number;
  /** Set if no call of the session begins. */
  readonly paused?: { readonly at: string; readonly by: string };
  readonly mode?: string;
  /** The session that passed a part of its authority on to this one. */
  readonly parent?: string;
}

interface Service {
  readonly name: string;
  readonly state: string;
  readonly problem?: string;
}

export type BoundName = 'timeoutMs' | 'cpuMs' | 'memoryMb' | 'processes' | 'fileMb' | 'outputBytes' | 'costUsdPerDay';
export type TierBounds = Readonly<Partial<Record<BoundName, number>>>;

/** The members that the panel shows, beside those that the protocol fixes. */
export type Status = Pick<
  Answer<'status'>,
  | 'uptimeMs'
  | 'version'
  | 'pid'
  | 'rssBytes'
  | 'calls'
  | 'approvers'
  | 'paused'
  | 'plugins'
  | 'cache'
  | 'undo'
  | 'audit'
  | 'listeners'
> & {
  readonly hosts: readonly Host[];
  readonly openSessions?: readonly OpenSession[];
  readonly providers?: readonly (Service & { pending: number })[];
  readonly connectors?: readonly Service[];
  /** Programs of the person that follow a workspace. */
  readonly outsidePrograms?: readonly { readonly workspace: string; readonly program: string; readonly pid: number }[];
  readonly policy?: {
    readonly name: string;
    readonly version: string;
    readonly rules: number;
    readonly from: string;
    readonly note?: string;
  };
  readonly confinement: {
    readonly level: string;
    readonly backend: string;
    readonly cgroup: string;
    readonly missing: readonly string[];
    readonly probes: Readonly<Record<string, string>>;
    readonly gaps: readonly { readonly id: string; readonly shows: string; readonly fix: string }[];
  };
  /** What a call of each tier may use at most. */
  readonly bounds: Readonly<Record<string, TierBounds>>;
  readonly disk: { readonly freeBytes: number; readonly advice?: string };
};

export const status = signal<Status | undefined>(undefined);

export async function loadStatus(): Promise<void> {
  status.value = (await request('status')) as unknown as Status;
}

setInterval(() => {
  if (!document.hidden && fleet.value === undefined) void loadStatus().catch(() => {}); // The connection is lost, which the page says already.
}, EVERY_MS);
