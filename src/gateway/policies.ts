/** The policy of a session: the daemon's, narrowed by the one that hello named, by its principal's and by those of its workspace. */
import { RpcError } from '../base/errors.ts';
import type { PathView } from '../hosts/hosts.ts';
import type { Call } from '../pipeline/stage.ts';
import { narrow } from '../policy/compose.ts';
import type { Modes } from '../policy/modes.ts';
import { namesSessions, pathRulesOf, viewKey } from '../policy/paths.ts';
import type { Policy } from '../policy/schema.ts';

export interface PoliciesOptions {
  /** The daemon's own policy at this moment. */
  base(): Policy;
  /** Built-in policies that a hello may name. */
  readonly builtIn: ReadonlyMap<string, Policy>;
  /** A policy that the config names: built-in or a file. Throws an Error that says what is wrong with it. */
  ofConfig(nameOrPath: string): Policy;
  readonly modes: Modes;
  /** The policies of all folders from the daemon's workspace down to the session's. Throws an Error that says file, line and column. */
  ofProject(workspace: string): readonly Policy[];
  /** Called when the policy files of an open session have become invalid; the earlier ones stay in force for it. */
  onRefused(message: string): void;
  readonly home: string;
  /** Source of the name of the daemon's policy, and the config file if it is one. */
  readonly origin: { readonly from: string; readonly configFile?: string };
  /** What a person should know of the built-in default since this start. */
  readonly note?: string | undefined;
}

/** The policies that narrow the daemon's for one session. */
export interface SessionPolicies {
  /** The workspace, whose own policy files count as well. */
  readonly workspace: string;
  /** Policy of the principal, from the config. */
  readonly principal?: string | undefined;
  /** Name of the built-in policy that the session asked for. */
  readonly hello?: string | undefined;
  /** Names of its modes. */
  readonly modes?: readonly string[] | undefined;
  /** For a delegated session: the policy of its parent now, which is narrowed in place of the daemon's. */
  readonly parent?: (() => Policy) | undefined;
  /** Built-in names or files of policies that its parent narrows by. */
  readonly narrowedBy?: readonly string[] | undefined;
}

type Viewer = Pick<Call, 'policy' | 'principal' | 'sessionId' | 'workspace' | 'root'>;

export class Policies {
  readonly #options: PoliciesOptions;
  /** Keyed by the policy object: a policy is never changed, only replaced. */
  readonly #views = new WeakMap<Policy, { readonly isBySession: boolean; readonly views: Map<string, PathView> }>();
  #readings = 0;

  constructor(options: PoliciesOptions) {
    this.#options = options;
  }

  get base(): Policy {
    return this.#options.base();
  }

  get modes(): Modes {
    return this.#options.modes;
  }

  /** Throws RpcError INVALID_PARAMS if there is no built-in policy of this name. */
  assertBuiltIn(name: string): void {
    this.#named(name);
  }

  /** The daemon's policy and where its name comes from. For operators only, since it names files outside of workspaces. */
  get status(): object {
    const { name, version, rules, and } = this.base;
    const narrowedBy = and.map((it) => it.name);
    const description = { name, version, rules: rules.length, ...this.#options.origin, note: this.note };
    return narrowedBy.length > 0 ? { ...description, narrowedBy } : description;
  }

  /** What a person should know of the policy since this start; undefined if they chose another way for commands. */
  get note(): string | undefined {
    const { source } = this.base.tiers.execute;
    return source.startsWith('built-in:default:') ? this.#options.note : undefined;
  }

  /** Makes every session read the files of principals and workspaces again when its policy is needed next. */
  reread(): void {
    this.#readings += 1;
  }

  /** A function that returns the session's policy in force, following changes of the daemon's. Throws RpcError. */
  policyOf(session: SessionPolicies): () => Policy {
    let narrowing = this.#narrowing(session);
    let reading = this.#readings;
    let from: Policy | undefined;
    let policy: Policy;
    return () => {
      const base = session.parent?.() ?? this.#options.base();
      if (from === base && reading === this.#readings) return policy;
      if (reading !== this.#readings) narrowing = this.#narrowingAgain(session) ?? narrowing;
      reading = this.#readings;
      from = base;
      policy = narrowing.reduce((whole, by) => narrow(whole, by), base);
      return policy;
    };
  }

  #narrowing({ workspace, principal, hello, modes = [], narrowedBy = [] }: SessionPolicies): Policy[] {
    const ofModes = modes.flatMap((it) => this.modes.find(it).policy ?? []);
    const ofConfig = [...(principal === undefined ? [] : [principal]), ...ofModes, ...narrowedBy];
    const own = ofConfig.map((it) => this.#read(() => this.#options.ofConfig(it)));
    const asked = hello === undefined ? [] : [this.#named(hello)];
    return [...own, ...asked, ...this.#read(() => this.#options.ofProject(workspace))];
  }

  #narrowingAgain(of: SessionPolicies): Policy[] | undefined {
    try {
      return this.#narrowing(of);
    } catch (error) {
      this.#options.onRefused((error as Error).message);
      return undefined;
    }
  }

  /** The path rules for hosts and sandboxes of this call. */
  viewOf({ policy, principal, sessionId, workspace, root }: Viewer): PathView {
    const kept = this.#views.get(policy) ?? { isBySession: namesSessions(policy), views: new Map<string, PathView>() };
    this.#views.set(policy, kept);
    const { isBySession, views } = kept;
    // Equal views share hosts by their key.
    const who = `${principal}\0${isBySession ? sessionId : ''}\0${workspace}`;
    const known = views.get(who);
    if (known) return known;
    const { home } = this.#options;
    const rules = pathRulesOf(policy, { principal, session: sessionId, home, workspace: root });
    const { folders } = policy;
    const key = folders ? `${viewKey(rules)} ${JSON.stringify(folders)}` : viewKey(rules);
    const view = { key, rules, home, root, folders };
    if (views.size >= VIEWS_KEPT) views.clear();
    views.set(who, view);
    return view;
  }

  #named(name: string): Policy {
    const policy = this.#options.builtIn.get(name);
    if (policy) return policy;
    const known = [...this.#options.builtIn.keys()].join(', ');
    throw new RpcError('INVALID_PARAMS', `there is no policy ${name}; the policies are: ${known}`);
  }

  /** Refuses the session if a policy file is invalid, rather than applying only part of its restrictions. */
  #read<T>(load: () => T): T {
    try {
      return load();
    } catch (error) {
      throw new RpcError('INVALID_REQUEST', `a policy of this session is not valid: ${(error as Error).message}`);
    }
  }
}

/** Most views kept; above it all are dropped and built again as needed, which takes microseconds. */
const VIEWS_KEPT = 256;
