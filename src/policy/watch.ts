/** Holds the policy in force and reloads it when one of its files changes. A bad file never replaces a good policy. */
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { defaultLimits } from '../base/limits.ts';
import type { Log, Powers, Timer } from '../base/powers.ts';
import type { LoadedPolicy } from './load.ts';
import { PolicyError } from './policy-error.ts';
import type { Policy } from './schema.ts';

export interface PolicySourceOptions {
  /** Reads the policy again completely. Throws PolicyError. */
  load(): LoadedPolicy;
  readonly powers: Pick<Powers, 'after'>;
  readonly log: Log;
  /** Called once for each change of what is decided, after the switch. */
  onChange(policy: Policy, before: Policy): void;
}

export interface ReloadResult {
  readonly ok: boolean;
  /** Why the old policy stays in force, each with its position; empty after a successful reload. */
  readonly problems: readonly string[];
}

/** Disposing stops the watching; the last policy stays in force. */
export interface PolicySource extends Disposable {
  /** The policy in force now. A caller that asks several questions about one call reads it once. */
  readonly current: Policy;
  /** Reads the files now. Throws only what `onChange` throws. */
  reload(): ReloadResult;
}

/** Loads the policy and watches its files. Throws PolicyError if the first load fails. */
export function createPolicySource(options: PolicySourceOptions): PolicySource {
  return new WatchedPolicy(options);
}

class WatchedPolicy implements PolicySource {
  readonly #options: PolicySourceOptions;
  #current: Policy;
  /** Watchers by directory, since editors and `mv` replace the file itself. */
  readonly #watchers = new Map<string, FSWatcher>();
  #names = new Set<string>();
  #timer: Timer | undefined;
  #disposed = false;

  constructor(options: PolicySourceOptions) {
    this.#options = options;
    const { policy, files } = options.load();
    this.#current = policy;
    this.#watch(files);
  }

  get current(): Policy {
    return this.#current;
  }

  reload(): ReloadResult {
    this.#timer?.cancel();
    let loaded: LoadedPolicy;
    try {
      loaded = this.#options.load();
    } catch (error) {
      return this.#keep(error);
    }
    this.#watch(loaded.files);
    this.#switch(loaded.policy);
    return { ok: true, problems: [] };
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#timer?.cancel();
    this.#watch([]);
  }

  #switch(policy: Policy): void {
    const before = this.#current;
    this.#current = policy;
    if (policy.version === before.version) return;
    this.#options.log.info({ policy: policy.name, version: policy.version }, 'policy reloaded');
    this.#options.onChange(policy, before);
  }

  #keep(error: unknown): ReloadResult {
    const { log } = this.#options;
    // The error may be in a file that the bad one extends, so watch these files as well as those in force.
    if (error instanceof PolicyError) this.#watch([...this.#names, ...error.files]);
    const problems = error instanceof PolicyError ? error.problems : [`the policy can't be read: ${error as Error}`];
    log.warn({ problems }, 'the new policy is not valid; the previous one stays in force');
    return { ok: false, problems };
  }

  #watch(files: readonly string[]): void {
    this.#names = new Set(this.#disposed ? [] : files);
    const directories = new Set([...this.#names].map((it) => dirname(it)));
    for (const [directory, watcher] of this.#watchers) {
      if (directories.has(directory)) continue;
      watcher.close();
      this.#watchers.delete(directory);
    }
    for (const directory of directories) if (!this.#watchers.has(directory)) this.#watchDirectory(directory);
  }

  #watchDirectory(directory: string): void {
    const { log } = this.#options;
    const failed = (error: unknown) => {
      this.#watchers.get(directory)?.close();
      this.#watchers.delete(directory);
      log.warn(
        { directory, error: `${error as Error}` },
        'can not watch the policy; reload it with `ringfence policy reload`',
      );
    };
    try {
      const watcher = watch(directory, { persistent: false }, (_, name) => this.#changed(directory, name));
      watcher.on('error', failed);
      this.#watchers.set(directory, watcher);
    } catch (error) {
      failed(error);
    }
  }

  #changed(directory: string, name: string | null): void {
    const concerned = [...this.#names].some(
      (it) => dirname(it) === directory && (name === null || basename(it) === name),
    );
    if (!concerned) return;
    const { powers } = this.#options;
    this.#timer?.cancel();
    this.#timer = powers.after(defaultLimits.policyReloadMs, () => {
      if (!this.#disposed) this.reload();
    });
  }
}
