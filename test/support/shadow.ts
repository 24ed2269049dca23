/** A shadow of a temporary workspace, and its undo, without a daemon. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits, type Limits } from '../../src/base/limits.ts';
import { isProtected } from '../../src/base/paths.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { Follower, watchesOfUser } from '../../src/hosts/follower/follower.ts';
import { CAME, KIND } from '../../src/hosts/follower/records.ts';
import type { CommandReport } from '../../src/hosts/shadow/journal-report.ts';
import { SecondNames } from '../../src/hosts/shadow/second-names.ts';
import type { ShadowState } from '../../src/hosts/shadow/shadow-messages.ts';
import type { UndoOutcome } from '../../src/tools/tool.ts';
import { Anchor } from '../../workers/context/anchor.ts';
import { Shadow } from '../../workers/shadow/shadow.ts';
import { temporaryDir, until } from './daemon.ts';
import { makeWorkspace, type TestWorkspace } from './workspace.ts';

const ENV = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: '/nonexistent',
  GIT_AUTHOR_NAME: 'A',
  GIT_AUTHOR_EMAIL: 'a@example.com',
  GIT_COMMITTER_NAME: 'A',
  GIT_COMMITTER_EMAIL: 'a@example.com',
  GIT_CONFIG_NOSYSTEM: '1',
};

export interface ShadowBenchOptions {
  readonly limits?: Partial<Limits>;
  isRefused?(path: string): boolean;
}

export class ShadowBench implements Disposable {
  readonly ws: TestWorkspace;
  readonly folder = temporaryDir('spool');
  readonly shadow: Shadow;
  readonly limits: Limits;
  readonly #follower: Follower;
  readonly #secondNames = new SecondNames();
  #keys = 0;

  constructor({ limits = {}, isRefused = () => false }: ShadowBenchOptions = {}) {
    this.ws = makeWorkspace({ limits });
    this.limits = { ...defaultLimits, ...limits };
    this.shadow = new Shadow({
      workspace: this.ws.path,
      anchor: new Anchor(this.ws.path, this.limits),
      folder: this.folder,
      limits: this.limits,
      powers: systemPowers(),
      isRefused,
      isProtected,
    });
    this.#follower = new Follower({
      workspace: this.ws.path,
      limits: this.limits,
      powers: systemPowers(),
      watchesLeft: watchesOfUser,
    });
    this.#follower.listen({
      onChanges: (changes) => {
        for (const change of changes) {
          const { folder, name, kind } = change;
          this.#secondNames.take(change);
          const hasCome = (kind & KIND.isFolder) !== 0 && (kind & CAME) !== 0;
          this.shadow.take({ folder, changed: hasCome ? [] : [name], came: hasCome ? [name] : [] });
        }
      },
      onLost: () => this.shadow.lose(),
      onReady: () => void this.shadow.build(),
    });
  }

  /** Follows the workspace, and reads it. */
  async build(): Promise<void> {
    await this.#follower.start();
    await until(() => this.shadow.state !== 'building');
  }

  async begin(run: number): Promise<ShadowState> {
    await until(() => this.#follower.settled());
    return this.shadow.begin(run);
  }

  async end(run: number, key: string | undefined): Promise<CommandReport | 'lost' | undefined> {
    await until(() => this.#follower.settled());
    return this.shadow.end(run, key, this.#secondNames.ask());
  }

  at(path: string): string {
    return join(this.ws.path, path);
  }

  newKey(): string {
    return (++this.#keys).toString(16).padStart(64, '0');
  }

  /** Runs a program outside of any sandbox, as the tests' own user. */
  sh(script: string): string {
    return execFileSync('/bin/bash', ['-c', script], { cwd: this.ws.path, env: ENV, stdio: 'pipe' }).toString();
  }

  /** Runs a program as a command of a call. */
  async command(script: string): Promise<{ key: string; report: CommandReport | undefined }> {
    const key = this.newKey();
    if ((await this.begin(this.#keys)) !== 'ready') throw new Error(`the shadow is ${this.shadow.state}`);
    const run = this.#keys;
    this.sh(script);
    const report = await this.end(run, key);
    if (report === 'lost') throw new Error('the changes are lost');
    return { key, report };
  }

  async undo(
    key: string,
    paths: readonly string[],
    { force = false, own = this.newKey() } = {},
  ): Promise<UndoOutcome & { key: string; undo: string | undefined; paths: readonly string[] }> {
    const context = this.ws.context({ journal: { folder: this.folder, key: own } });
    let outcome: UndoOutcome;
    try {
      outcome = await context.undo({ keys: [key], paths, force });
    } catch (error) {
      context.endJournal();
      throw error;
    }
    const journal = context.endJournal();
    return { ...outcome, key: own, undo: journal?.undo, paths: journal?.paths ?? [] };
  }

  /** A copy of the workspace as it is now. */
  copy(): string {
    const folder = temporaryDir('copy');
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    cpSync(this.ws.path, folder, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    return folder;
  }

  [Symbol.dispose](): void {
    this.#follower[Symbol.dispose]();
    this.shadow[Symbol.dispose]();
    // Some programs leave directories that nobody may enter.
    execFileSync('chmod', ['-R', 'u+rwX', this.ws.path], { stdio: 'ignore' });
    this.ws[Symbol.dispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
