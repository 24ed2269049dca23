/** The policies of the daemon: where each is loaded from, and who is told when one changes. */
import { existsSync, realpathSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Limits } from '../base/limits.ts';
import { isInside } from '../base/paths.ts';
import type { Powers } from '../base/powers.ts';
import type { Events } from '../gateway/events.ts';
import { Policies } from '../gateway/policies.ts';
import { rebase } from '../policy/compose.ts';
import { BUILT_IN, type LoadedPolicy, PolicyError, parsePolicy, projectPolicy, readPolicy } from '../policy/load.ts';
import { Modes } from '../policy/modes.ts';
import type { Policy } from '../policy/schema.ts';
import type { PolicySource, PolicySourceOptions, ReloadResult } from '../policy/watch.ts';
import { effectsOfBuiltin } from '../tools/registry.ts';
import type { Config } from './config.ts';
import type { Records } from './records.ts';
import type { Workspaces } from './workspaces.ts';

export interface PolicySourceParts {
  readonly powers: Powers;
  readonly events: Events;
  readonly records: Records;
  readonly workspaces: Workspaces;
  /** Called after each change of the policy. */
  onChange(): void;
}

/** The policy of the config, loaded again whenever one of its files changes; each change is recorded and announced. */
export function policySource(
  { policy, limits }: Config,
  { powers, events, records, workspaces, onChange }: PolicySourceParts,
): PolicySourceOptions {
  return {
    load: () => loadOutside(policy, workspaces, limits),
    powers,
    log: powers.log,
    onChange: ({ name, version }, before) => {
      const detail = { policy: name, version, before: before.version };
      records.auditLog.append({ kind: 'policy', sessionId: '', principal: 'daemon', detail });
      onChange();
      events.publish({ topic: 'policy', sessionId: '', method: 'policy.changed', params: { policy: name, version } });
    },
  };
}

/** Throws PolicyError if the policy of the config can't be loaded. */
export const assertPolicy = ({ policy, limits }: Config, workspaces: Workspaces): void =>
  void loadOutside(policy, workspaces, limits);

const UNASKED_NOTE =
  'commands now run in their sandbox without a question, and you are asked where something leaves it; to be asked ' +
  'before each command, as until now: `policy: careful` in config.yaml, or `ringfence serve --policy careful`';

/** Says that commands run unasked, once, to a person whose daemon asked about them before. */
function unaskedNote(stateDir: string, isUsed: boolean): string | undefined {
  const said = join(stateDir, 'unasked-note');
  if (existsSync(said)) return undefined;
  writeFileSync(said, '', { mode: 0o600 });
  return isUsed ? UNASKED_NOTE : undefined;
}

/** `isUsed`: whether an earlier daemon used the state directory. */
export function createPolicies(
  { limits, dirs, policyOrigin, modes }: Config,
  { base, workspaces, powers, isUsed }: { base: () => Policy; workspaces: Workspaces; powers: Powers; isUsed: boolean },
): Policies {
  return new Policies({
    base,
    builtIn: BUILT_IN,
    origin: policyOrigin,
    note: unaskedNote(dirs.stateDir, isUsed),
    modes: new Modes(modes),
    ofConfig: (nameOrPath) => loadOutside(nameOrPath, workspaces, limits).policy,
    ofProject: (workspace) => projectPolicies(workspace, workspaces, limits),
    onRefused: (reason) => powers.log.warn({ reason }, 'a session keeps its previous policy'),
    home: dirs.home,
  });
}

/** Reloads the daemon's own policy and the policies that narrow it for sessions. */
export const reloadOf = (source: PolicySource, policies: Policies) => (): ReloadResult => {
  policies.reread();
  return source.reload();
};

/** Loads a policy, none of whose files may lie where an agent could change it. Throws PolicyError. */
function loadOutside(nameOrPath: string, workspaces: Workspaces, limits: Limits): LoadedPolicy {
  const loaded = readPolicy(nameOrPath, { limits, effectsOf: effectsOfBuiltin });
  const inside = loaded.files.find((file) => workspaces.all.some((it) => isInside(it, realpathSync(file))));
  if (inside === undefined) return loaded;
  throw new PolicyError(
    [`${inside} lies in a workspace, where agents could change it; move it out of the workspace`],
    loaded.files,
  );
}

/** The policy files of the folders from the configured workspace down to the session's; each may only narrow. Throws PolicyError. */
function projectPolicies(workspace: string, workspaces: Workspaces, limits: Limits): Policy[] {
  const way = workspaces.wayTo(workspace);
  return way.flatMap((folder) => {
    const policy = projectPolicy(folder, { limits, effectsOf: effectsOfBuiltin });
    return policy ? rebase(policy, relative(way[0] as string, folder)) : [];
  });
}

/** The policy of a text that no file has yet. Throws PolicyError with every problem. */
export const policyOf = (text: string, limits: Limits): Policy =>
  parsePolicy(text, 'policy.yaml', { limits, effectsOf: effectsOfBuiltin });
