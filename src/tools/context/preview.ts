/** Previews and plans of calls, made before they run. */

/** What a call would change, and the content that this was computed from. */
export interface Preview {
  /** Unified diff; absent if none can be made. */
  diff?: string | undefined;
  /** Files that the call replaces or removes, as they are now; null if there is no file. */
  preImages: { path: string; hash: string | null }[];
  /** For calls that delete: whether the undo journal will keep all of it; absent if the tool can't tell. */
  undo?: 'full' | 'none' | undefined;
}

/** What `prepare` gives. */
export interface Prepared {
  /** For `run`, unchanged. */
  readonly plan: unknown;
  /** Identifies the plan: a person's yes is bound to it. */
  readonly hash: string;
  /** Text for the person who is asked. */
  readonly diff: string;
  /** Files that the plan was made from; a yes is bound to their contents. */
  readonly preImages: Preview['preImages'];
}
