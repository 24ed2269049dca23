/** Which policy a session is under: the daemon's, narrowed by what its hello named, its principal's, and its workspace's own files. */
import { RpcError } from '../errors.ts';
import type { PathView } from '../hosts/hosts.ts';
import type { Call } from '../pipeline/stage.ts';
import { narrow } from '../policy/compose.ts';
import { pathRulesOf, viewKey } from '../policy/paths.ts';
import type { Policy } from '../policy/schema.ts';

export interface PoliciesOptions {
  /** The daemon's own, as it is now. */
  base(): Policy;
  /** Built-in policies that a hello may name. */
  readonly builtIn: ReadonlyMap<string, Policy>;
  /** Of a principal, as the config names it: built-in, or a file. Throws an Error that says what is wrong with it. */
  ofPrincipal(nameOrPath: string): Policy;
  /** Of the folders from the daemon's workspace down to the session's; throws an Error that says file, line and column. */
  ofProject(workspace: string): readonly Policy[];
  /** Files of a session that is there are not right any more: those of before stay in force for it. */
  onRefused(message: string): void;
  readonly home: string;
  /** Who named the daemon's own, and in which file where it was one. */
  readonly origin: { readonly from: string; readonly configFile?: string };
}

/** What narrows the daemon's policy for one session. */
export interface Narrowing {
  /** Whose own files count too. */
  readonly workspace: string;
  /** Policy of who connects, by the config. */
  readonly principal?: string | undefined;
  /** Name of a built-in one that the session asked for. */
  readonly hello?: string | undefined;
}

type Viewer = Pick<Call, 'policy' | 'principal' | 'sessionId' | 'workspace' | 'root'>;

export class Policies {
  readonly #options: PoliciesOptions;
  /** By the policy's own identity: a policy is never changed, only replaced. */
  readonly #views = new WeakMap<Policy, Map<string, PathView>>();
  #readings = 0;

  constructor(options: PoliciesOptions) {
    this.#options = options;
  }

  get base(): Policy {
    return this.#options.base();
  }

  /** The daemon's own, and who named it; for operators alone, since it names files outside of workspaces. */
  get status(): object {
    const { name, version, rules, and } = this.base;
    const narrowedBy = and.map((it) => it.name);
    const told = { name, version, rules: rules.length, ...this.#options.origin };
    return narrowedBy.length > 0 ? { ...told, narrowedBy } : told;
  }

  /** Has the files of principals and workspaces be read again, for each session when it is asked about next. */
  reread(): void {
    this.#readings += 1;
  }

  /** What is in force for a session from now on, following the daemon's own. Throws RpcError. */
  of(of: Narrowing): () => Policy {
    let narrowing = this.#narrowing(of);
    let reading = this.#readings;
    let from: Policy | undefined;
    let policy: Policy;
    return () => {
      const base = this.#options.base();
      if (from === base && reading === this.#readings) return policy;
      if (reading !== this.#readings) narrowing = this.#narrowingAgain(of) ?? narrowing;
      reading = this.#readings;
      from = base;
      policy = narrowing.reduce((whole, by) => narrow(whole, by), base);
      return policy;
    };
  }

  #narrowing({ workspace, principal, hello }: Narrowing): Policy[] {
    const own = principal === undefined ? [] : [this.#read(() => this.#options.ofPrincipal(principal))];
    const asked = hello === undefined ? [] : [this.#named(hello)];
    return [...own, ...asked, ...this.#read(() => this.#options.ofProject(workspace))];
  }

  #narrowingAgain(of: Narrowing): Policy[] | undefined {
    try {
      return this.#narrowing(of);
    } catch (error) {
      this.#options.onRefused((error as Error).message);
      return undefined;
    }
  }

  /** The rules on paths that hosts and sandboxes of this call are held to. */
  viewOf({ policy, principal, sessionId, workspace, root }: Viewer): PathView {
    const views = this.#views.get(policy) ?? new Map<string, PathView>();
    this.#views.set(policy, views);
    // Most policies say the same to everybody; a view that is equal shares its hosts by its key.
    const who = `${principal}\0${sessionId}\0${workspace}`;
    const known = views.get(who);
    if (known) return known;
    const { home } = this.#options;
    const rules = pathRulesOf(policy, { principal, session: sessionId, home, workspace: root });
    const view = { key: viewKey(rules), rules, home, root };
    if (views.size >= VIEWS_KEPT) views.clear();
    views.set(who, view);
    return view;
  }

  #named(name: string): Policy {
    const policy = this.#options.builtIn.get(name);
    if (policy) return policy;
    const known = [...this.#options.builtIn.keys()].join(', ');
    throw new RpcError('INVALID_PARAMS', `there is no policy ${name}; there are: ${known}`);
  }

  /** A file that is not right narrows nobody by halves: the session is refused. */
  #read<T>(load: () => T): T {
    try {
      return load();
    } catch (error) {
      throw new RpcError('INVALID_REQUEST', `a policy of this session is not right: ${(error as Error).message}`);
    }
  }
}

/** Views are made anew when there are more sessions than this; making one takes microseconds. */
const VIEWS_KEPT = 256;
