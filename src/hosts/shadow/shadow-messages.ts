/** Messages between the gateway and the thread of a write host that knows what a workspace held before a command. */
import { isRecord } from '../../base/text/values.ts';
import { type CommandReport, isCommandReport, type ReportBounds } from './journal-report.ts';

export type ToShadow =
  /** All changes are given from here on, so that the workspace can be read; false: changes are missing. */
  | { readonly follow: boolean }
  /** Names in a folder that have changed. */
  | { readonly folder: string; readonly changed: readonly string[]; readonly came: readonly string[] }
  /** A command is about to start. */
  | { readonly begin: number }
  /**
   * A command is over: write its journal under this key in the spool; without a key, keep nothing. `sweep`: a file may
   * have changed whose name was not given.
   */
  | { readonly end: number; readonly key?: string; readonly sweep?: boolean };

/** `building`: the workspace is still being read; `unwatched`: it can't be held in memory. */
export type ShadowState = 'building' | 'ready' | 'unwatched';

export type FromShadow =
  | { readonly began: number; readonly state: ShadowState }
  /** Without a report nothing changed; `lost`: what changed is not known. */
  | { readonly ended: number; readonly report?: CommandReport; readonly lost?: boolean };

/** How a write host starts the thread: the descriptor of its socket, and the workspace's spool. */
export interface ShadowSetup {
  readonly fd: number;
  readonly folder: string;
}

const STATES: readonly unknown[] = ['building', 'ready', 'unwatched'];

/** Checks the shape of a message from the thread, whose process may be compromised. Undefined for an invalid message. */
export function parseFromShadow(message: unknown, { pathsMax, missingMax }: ReportBounds): FromShadow | undefined {
  if (!isRecord(message)) return undefined;
  const { began, state, ended, report, lost } = message;
  if (typeof began === 'number' && STATES.includes(state)) return { began, state: state as ShadowState };
  if (typeof ended !== 'number') return undefined;
  if (lost === true) return { ended, lost };
  if (report === undefined) return { ended };
  return isCommandReport(report, { pathsMax, missingMax }) ? { ended, report } : undefined;
}
