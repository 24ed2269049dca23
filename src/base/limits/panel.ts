/** Bounds of the web panel: of signing in, and of the pages that are signed in. */
import { KiB } from './units.ts';

export const panelLimits = {
  /**
   * Characters of a question's input, and of its diff, when a person looks at all of it; nobody is asked about a longer
   * input. Kept while the question waits.
   */
  approvalWholeChars: 512 * KiB,
  /** Calls whose newest states are held for a subscriber that takes them every so often. */
  callUpdatesHeldMax: 1000,
  /** Time in which a page may exchange a code for its token; a code that somebody finds later gives nothing. */
  panelCodeMs: 60_000,
  /** Codes that no page has exchanged yet; the oldest is dropped for a new one, so that asking for many takes no memory. */
  panelCodesMax: 16,
  /** Bytes of a request to sign in, which holds one code; anybody on this machine can send one. */
  panelSignInBytesMax: 1 * KiB,
  /** Time after which the token of a page that nobody uses ends: 12 hours. */
  panelIdleMs: 12 * 3_600_000,
  /** Pages that are signed in; the one that was unused for longest is signed out for a new one. */
  panelSessionsMax: 32,
};
