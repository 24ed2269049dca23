/** Messages between the gateway and a browser host, within those of hosts (src/hosts/job.ts). */
import type { PageVisit } from '../../../tools/context/visit.ts';

/** Part of the setup of a browser host. */
export interface BrowserSetup {
  /** Absolute path of Chromium. */
  readonly program: string;
  /** URL of the egress proxy in the sandbox. */
  readonly proxy: string;
}

export interface VisitJob extends PageVisit {
  /** Time for all of it, from the start of the browser on. */
  readonly withinMs: number;
}

/** Bounds of what a host says of a page. */
export const URL_CHARS_MAX = 8_192;
export const TITLE_CHARS_MAX = 500;
export const NOTE_CHARS_MAX = 500;
export const NOTES_MAX = 20;
