/** A command in a workspace that is followed: which files change while it runs, and its end if it makes too many folders. */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { fromRoot } from '../../base/paths.ts';
import { pathDecision } from '../../policy/paths.ts';
import { ordinaryPathsIn } from '../../policy/secrets/ordinary-paths.ts';
import type { Masks } from '../../sandbox/masks.ts';
import type { FilesChanged, JobResult, JobUsage, PathView } from '../job.ts';
import type { ChangedRun } from './changed-files.ts';
import type { Follower } from './follower.ts';
import type { Beyond } from './records.ts';

export interface FollowedPlace {
  readonly workspace: string;
  readonly view: PathView;
  readonly masks: Masks;
  readonly limits: Limits;
  readonly follower: Follower;
  /** The count of changes, begun right after the masks. */
  readonly changed: ChangedRun;
}

export class FollowedCommand implements Disposable {
  /** Aborts with the caller's signal, or when the command has made folders that can't be followed. */
  readonly signal: AbortSignal;
  readonly #place: FollowedPlace;
  readonly #unlisten: () => void;
  #error: ToolError | undefined;

  constructor(place: FollowedPlace, signal: AbortSignal) {
    this.#place = place;
    const controller = new AbortController();
    this.signal = AbortSignal.any([signal, controller.signal]);
    this.#unlisten = place.follower.listen({
      onBeyond: (why) => {
        this.#error ??= beyondBounds(why, place);
        controller.abort(this.#error);
      },
    });
  }

  /** The result of the command with the files that changed; an error if it went beyond the bounds. */
  async resultOf(result: JobResult): Promise<JobResult> {
    const changed = await this.#place.changed.end(this.#isRefused);
    const usage = { ...result.usage, ...toUsage(changed) };
    if (!this.#error) return { ...result, usage };
    const error = this.#error.toWire();
    return {
      ok: false,
      error: { ...error, details: { ...error.details, ...(result.ok ? {} : outputIn(result.error.details)) } },
      usage: { ...usage, verdict: 'file', enforcedBy: 'daemon' },
    };
  }

  [Symbol.dispose](): void {
    this.#unlisten();
  }

  /** Whether a rule keeps a path from being named, or a mount hid it. */
  get #isRefused(): (path: string) => boolean {
    const { view, workspace, limits, masks } = this.#place;
    const isOrdinary = ordinaryPathsIn(workspace, limits);
    const decisionOn = (path: string) =>
      pathDecision(view.rules, 'read', fromRoot(view.root ?? workspace, workspace, path), view.home, () =>
        isOrdinary(path),
      );
    const asked = decisionOn('.');
    const hidden = new Set(masks.hidden.map((it) => it.path));
    return (path) => {
      const own = decisionOn(path);
      const isRuled = own !== undefined && (own.decision === 'deny' || own.id !== asked?.id);
      return isRuled || isWithin(path, hidden);
    };
  }
}

/** Whether one of the folders, or the path itself, is among `places`. */
function isWithin(path: string, places: ReadonlySet<string>): boolean {
  for (let at = path.length; at > 0; at = path.lastIndexOf('/', at - 1)) if (places.has(path.slice(0, at))) return true;
  return false;
}

const BOUND: Record<Beyond, string> = {
  path: 'paths of 4096 bytes and more',
  folders: 'more folders than are followed (limits.watchedDirectoriesMax, half of fs.inotify.max_user_watches)',
  watches: 'more folders than the system has watches left for (fs.inotify.max_user_watches)',
};

const beyondBounds = (why: Beyond, { follower }: FollowedPlace): ToolError =>
  new ToolError('FILE_LIMIT', `the workspace got ${BOUND[why]} while the command ran; the command was ended`, {
    suggestion: 'Make fewer folders, or make them in /tmp.',
    details: { bound: why, used: follower.folders, enforcedBy: 'daemon' },
  });

function toUsage(changed: FilesChanged): Partial<JobUsage> {
  if ('unknown' in changed) return { filesUnknown: changed.unknown };
  const { files, total } = changed;
  return { filesChanged: files, ...(total > files.length && { filesChangedTotal: total }) };
}

/** The output of a command that was ended, among the details of its error. */
function outputIn(details: Readonly<Record<string, unknown>> = {}): object {
  const { stdout, stderr } = details;
  return { stdout, stderr };
}
