/**
 * Keeps a node under the policy that the operator requires. The roster names a bundle by its digest, the hub hands it out,
 * and the node takes it only with the operator's signature. A node that follows anything else takes no sessions.
 */
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { assertSigned, type PolicyBundle, readBundle } from '../../policy/bundle/bundle.ts';
import { PolicyError } from '../../policy/policy-error.ts';
import { type FleetLink, Unanswered } from '../link.ts';
import { OBSTACLE_CHARS } from '../presence.ts';
import type { RequiredBundle, Roster } from '../roster.ts';
import { publicPemOf } from '../signing.ts';
import { subjects } from '../subjects.ts';
import { type DaemonClient, toWire } from '../wire.ts';
import { PolicyFiles } from './policy-files.ts';

/** Time between two looks at what the roster requires. */
const LOOK_MS = 1_000;
const ANSWER_MS = 3_000;

export interface NodePolicyOptions {
  readonly credential: { readonly operatorKey: string };
  readonly stateDir: string;
  readonly link: Pick<FleetLink, 'request'>;
  readonly daemon: Pick<DaemonClient, 'request'>;
  readonly limits: Limits;
  readonly powers: Powers;
  roster(): Roster | undefined;
}

/** The policy of a daemon, as its `status` tells it. */
export interface FollowedPolicy {
  readonly name: string;
  readonly version: string;
}

/** A bundle that the daemon has taken, and the version that it gave the policy. */
interface TakenBundle {
  readonly digest: string;
  readonly version: string;
}

export class NodePolicy implements Disposable {
  readonly #options: NodePolicyOptions;
  readonly #files: PolicyFiles;
  #required: RequiredBundle | undefined;
  #taken: TakenBundle | undefined;
  /** Why the required bundle was not taken. */
  #problem: string | undefined;
  #timer: Timer | undefined;
  #isEnded = false;

  constructor(options: NodePolicyOptions) {
    this.#options = options;
    this.#files = new PolicyFiles(options.stateDir);
    this.#required = this.#files.readRequired();
    void this.#look();
  }

  /** Why this node may take no sessions under the policy that its daemon follows; undefined if it may. */
  obstacleOf({ name, version }: FollowedPolicy): string | undefined {
    this.#note();
    const wanted = this.#required?.digest ?? undefined;
    const followsFleet = name === this.#files.entry;
    if (!followsFleet) return wanted === undefined ? undefined : OWN_POLICY;
    const taken = this.#taken;
    if (!taken || (wanted !== undefined && taken.digest !== wanted))
      return `does not have the operator's policy${this.#why}`.slice(0, OBSTACLE_CHARS);
    if (taken.version !== version) return "follows another policy than the operator's: its files were changed";
    return undefined;
  }

  get #why(): string {
    return this.#problem === undefined ? ' yet' : `: ${this.#problem}`;
  }

  /** Takes over what the roster requires. An older roster changes nothing: the bus or the hub may have kept it. */
  #note(): void {
    const asked = this.#options.roster()?.bundle;
    if (!asked || asked.revision <= (this.#required?.revision ?? 0)) return;
    this.#required = asked;
    this.#problem = undefined;
    this.#files.writeRequired(asked);
  }

  async #look(): Promise<void> {
    try {
      this.#note();
      await this.#takeRequired();
    } catch (error) {
      if (error instanceof Unanswered) this.#tell(`the hub does not hand it out: ${error.message}`);
      else this.#tell((error as Error).message);
    }
    if (!this.#isEnded) this.#timer = this.#options.powers.after(LOOK_MS, () => void this.#look());
  }

  /** Takes the required bundle, or the last one if none is required any more. */
  async #takeRequired(): Promise<void> {
    const wanted = this.#required?.digest;
    if (this.#taken && (!wanted || this.#taken.digest === wanted)) return;
    const kept = this.#files.readBundle();
    if (kept !== undefined && this.#isWanted(kept)) return await this.#take(kept);
    if (!wanted) return;
    const { link } = this.#options;
    const came = Buffer.from(await link.request(subjects.policy, toWire({}), ANSWER_MS)).toString();
    await this.#take(came);
  }

  /** Whether a text that was kept is the bundle that is required now. */
  #isWanted(text: string): boolean {
    try {
      this.#check(text);
      return true;
    } catch (error) {
      if (error instanceof PolicyError) return false;
      throw error;
    }
  }

  /** The bundle of a text, with the digest that the roster names and the operator's signature. Throws PolicyError. */
  #check(text: string): PolicyBundle {
    const { credential, limits } = this.#options;
    const bundle = readBundle(text, LABEL, limits);
    const wanted = this.#required?.digest ?? bundle.digest;
    if (bundle.digest !== wanted)
      throw new PolicyError([`${LABEL} has digest ${bundle.digest}, and the roster requires ${wanted}`]);
    assertSigned(bundle, publicPemOf(credential.operatorKey), LABEL);
    return bundle;
  }

  /** Lets the daemon follow a bundle; one that it refuses is not put in force. Throws PolicyError. */
  async #take(text: string): Promise<void> {
    const { daemon, powers } = this.#options;
    const bundle = this.#check(text);
    const name = powers.uuid();
    const before = this.#files.replaceBy(bundle, name);
    const { ok, problems } = (await daemon.request('policy.reload', {})) as { ok: boolean; problems: string[] };
    if (!ok) {
      before[Symbol.dispose]();
      throw new PolicyError([`the daemon refuses ${LABEL}: ${problems.join('; ')}`]);
    }
    const { policy } = (await daemon.request('status', {})) as { policy: FollowedPolicy };
    this.#files.keep(text, name);
    this.#taken = { digest: bundle.digest, version: policy.version };
    this.#problem = undefined;
    powers.log.info({ digest: bundle.digest }, "this node has the operator's policy");
  }

  #tell(problem: string): void {
    if (problem === this.#problem) return;
    this.#problem = problem;
    this.#options.powers.log.warn({ reason: problem }, "the operator's policy was not taken");
  }

  [Symbol.dispose](): void {
    this.#isEnded = true;
    this.#timer?.cancel();
  }
}

const LABEL = 'the bundle';
const OWN_POLICY = "follows a policy of its own, not the operator's; start its daemon with --policy fleet";
