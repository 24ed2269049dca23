/**
 * Calls through a gateway while its nodes are killed and started again: what the client was told of each call, beside what
 * the nodes' files and records say. `test/fleet/kills.test.ts` makes a thousand calls, `bench/soak/fleet-kills.ts` more.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WireError } from '../../src/base/errors.ts';
import type { Client } from '../../src/client/client.ts';
import type { AuditRecord } from '../../src/store/audit/entry.ts';
import { removeTree, type TestDaemon, temporaryDir } from './daemon.ts';
import { clientOf, TestFleet } from './fleet.ts';

export interface KillPlan {
  readonly calls: number;
  /** Calls after which one node is killed; the next one once it is back. */
  readonly killEach: number;
}

/** What a client was told: `success`, the `outcome` of a lost call, or the code of another error. */
type Told = string;

export interface KillReport {
  readonly told: Readonly<Record<Told, number>>;
  readonly kills: number;
  /** Calls that ran twice. */
  readonly doubled: readonly string[];
  /** Calls of which the client was told what the files or the records of the nodes contradict. */
  readonly wrong: readonly string[];
}

const LANES = 8;
/** Each call leaves its id in this file of its node's workspace. */
const TRACE = 'ran';
/** No session of a client can be opened for longer than a lost node takes to be noticed, and another one to be chosen. */
const OPEN_TRIES = 40;

export async function runWithKills({ calls, killEach }: KillPlan): Promise<KillReport> {
  await using fleet = await TestFleet.start();
  await using run = new KillRun(fleet, calls);
  await run.start();
  await Promise.all([run.killEach(killEach), ...Array.from({ length: LANES }, () => run.lane())]);
  return await run.report();
}

interface KilledNode {
  readonly name: string;
  readonly stateDir: string;
  readonly workspace: string;
  daemon: TestDaemon;
}

class KillRun implements AsyncDisposable {
  readonly #fleet: TestFleet;
  readonly #calls: number;
  readonly #told = new Map<string, Told>();
  readonly #nodes: KilledNode[] = [];
  #begun = 0;
  #kills = 0;
  #socket = '';

  constructor(fleet: TestFleet, calls: number) {
    this.#fleet = fleet;
    this.#calls = calls;
  }

  async start(): Promise<void> {
    for (const name of ['node-a', 'node-b']) {
      const [stateDir, workspace] = [temporaryDir(name), temporaryDir(`${name}-ws`)];
      this.#nodes.push({ name, stateDir, workspace, daemon: await this.#fleet.node(name, { stateDir, workspace }) });
    }
    this.#socket = await this.#fleet.gateway();
  }

  /** Makes calls until all are made, in one session after another. */
  async lane(): Promise<void> {
    while (this.#begun < this.#calls) {
      await using client = await clientOf(this.#socket, {}, OPEN_TRIES);
      while (this.#begun < this.#calls && (await this.#callOnce(client)) === 'success');
    }
  }

  async #callOnce(client: Client): Promise<Told> {
    const id = `call-${this.#begun++}`;
    const told = await client.call('terminal_execute', { command: `echo ${id} >> ${TRACE}` }, { callId: id }).then(
      (result) => (result.success ? 'success' : toldBy(result.error)),
      () => 'unanswered',
    );
    this.#told.set(id, told);
    return told;
  }

  /** Kills the nodes in turn, each after so many further calls. */
  async killEach(every: number): Promise<void> {
    for (let at = every; at < this.#calls; at += every) {
      while (this.#begun < at) await sleep(20);
      const node = this.#nodes[this.#kills++ % this.#nodes.length] as KilledNode;
      node.daemon.process.kill('SIGKILL');
      await node.daemon.ended;
      const { stateDir, workspace } = node;
      node.daemon = await this.#fleet.node(node.name, { stateDir, workspace });
    }
  }

  async report(): Promise<KillReport> {
    const lines = this.#nodes.flatMap(({ workspace }) => linesOf(join(workspace, TRACE)));
    const ran = new Map<string, number>();
    for (const it of lines) ran.set(it, (ran.get(it) ?? 0) + 1);
    const told: Record<Told, number> = {};
    for (const it of this.#told.values()) told[it] = (told[it] ?? 0) + 1;
    const { begun, ends } = await this.#records();
    const wrong = [...this.#told].flatMap(([id, it]) => {
      const problem = contradiction(it, { timesRun: ran.get(id) ?? 0, hasBegun: begun.has(id), end: ends.get(id) });
      return problem === undefined ? [] : [`${id} (${it}): ${problem}`];
    });
    const doubled = [...ran].filter(([, times]) => times > 1).map(([id]) => id);
    return { told, kills: this.#kills, doubled, wrong };
  }

  /** What the records of the nodes say of all calls: which were begun, and the code of each end. Throws if one is not whole. */
  async #records(): Promise<{ begun: Set<string>; ends: Map<string, string> }> {
    const begun = new Set<string>();
    const ends = new Map<string, string>();
    for (const { name, daemon } of this.#nodes) {
      await using operator = await daemon.connect({ role: 'operator' });
      const { ok } = (await operator.request('audit.verify', {})) as { ok: boolean };
      if (!ok) throw new Error(`the record of ${name} is not whole`);
      for (let cursor: string | undefined = '0'; cursor !== undefined; ) {
        const page = (await operator.request('audit.query', {
          calls: true,
          order: 'oldest',
          limit: 256,
          cursor,
        })) as AuditPage;
        for (const { callId = '', kind, code } of page.entries) {
          if (kind === 'intent') begun.add(callId);
          if (kind === 'outcome') ends.set(callId, code ?? 'success');
        }
        cursor = page.cursor;
      }
    }
    return { begun, ends };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { daemon, stateDir, workspace } of this.#nodes) {
      await daemon[Symbol.asyncDispose]();
      for (const it of [stateDir, workspace]) removeTree(it);
    }
  }
}

const toldBy = ({ code, details }: WireError): Told =>
  details?.outcome === 'none' || details?.outcome === 'unknown' ? details.outcome : code;

interface AuditPage {
  readonly entries: readonly AuditRecord[];
  readonly cursor?: string;
}

const linesOf = (path: string): string[] =>
  existsSync(path)
    ? readFileSync(path, 'utf8')
        .split('\n')
        .filter((it) => it !== '')
    : [];

interface Known {
  readonly timesRun: number;
  readonly hasBegun: boolean;
  /** Code of the recorded end; undefined if none is recorded. */
  readonly end: string | undefined;
}

/** What contradicts that which a client was told; undefined if nothing does. */
function contradiction(told: Told, { timesRun, hasBegun, end }: Known): string | undefined {
  if (timesRun > 0 && !hasBegun) return 'it ran, and no record says that it began';
  if (told === 'success' && timesRun !== 1) return `it ran ${timesRun} times`;
  if (told === 'none' && timesRun > 0) return 'it ran';
  // The record begins before the queue; behind it, the fence refuses a call whose lease is too old by then.
  if (told === 'none' && hasBegun && end !== 'HOST_CRASHED') return `it has begun, and ended as ${end}`;
  if (!['success', 'none', 'unknown', 'unanswered'].includes(told)) return 'it says nothing of what became of it';
  return undefined;
}
