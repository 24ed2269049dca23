/**
 * Which principals have got results that strangers wrote, by workspace. A mark outlives sessions and daemons, because the agent's memory
 * does as well; only a person takes it away.
 */
import { existsSync, readFileSync } from 'node:fs';
import * as z from 'zod';
import { replaceFile } from '../../base/disk.ts';
import type { Powers } from '../../base/powers.ts';
import { untrustedMark } from '../../base/result-shapes.ts';
import { parseJson } from '../../base/text/json.ts';

/** Most marks; bounds the file against a principal that reads in many workspaces. Further ones hold for all workspaces of their principal. */
const MARKS_MAX = 1_000;
/** Stands for all workspaces, or for all principals if the file was damaged. */
const ANY = '*';

export type Mark = z.output<typeof untrustedMark>;
export type Place = Pick<Mark, 'principal' | 'workspace'>;

export class UntrustedMarks {
  readonly #path: string;
  readonly #powers: Powers;
  #marks: readonly Mark[];
  /** Whether the file lacks a change. */
  #isUnwritten = false;

  /** Reads the file at `path`. */
  constructor(path: string, powers: Powers) {
    this.#path = path;
    this.#powers = powers;
    this.#marks = this.#read();
  }

  /** The marks of a principal in a workspace, of each where one is not named. */
  list(of: { readonly [Key in keyof Place]?: string | undefined }): readonly Mark[] {
    return this.#marks.filter(({ principal, workspace }) => {
      return (of.principal ?? principal) === principal && (of.workspace ?? workspace) === workspace;
    });
  }

  clear(marks: readonly Mark[]): void {
    this.#keep(this.#marks.filter((it) => !marks.includes(it)));
  }

  has(place: Place): boolean {
    return this.#marks.some((it) => isOf(it, place));
  }

  /** Notes that a principal has got what strangers wrote. Gives false if that was known. */
  add(mark: Mark): boolean {
    const isNew = !this.has(mark);
    if (!isNew && !this.#isUnwritten) return false;
    const isFull = this.#marks.length >= MARKS_MAX;
    const { principal } = mark;
    // Workspaces that are gone need no mark; where all are there, one mark takes the place of all of the principal's.
    const rest = isFull ? this.#marks.filter((it) => it.workspace === ANY || existsSync(it.workspace)) : this.#marks;
    if (!isNew) this.#keep(rest);
    else if (rest.length < MARKS_MAX) this.#keep([...rest, mark]);
    else this.#keep([...rest.filter((it) => it.principal !== principal), { ...mark, workspace: ANY }]);
    return isNew;
  }

  /** Notes that a principal reads here what it may have left in any of its workspaces. */
  carry({ principal, workspace }: Place): void {
    const from = this.#marks.find((it) => isOf(it, { principal, workspace: ANY }));
    if (from) this.add({ ...from, principal, workspace });
  }

  #read(): readonly Mark[] {
    if (!existsSync(this.#path)) return [];
    try {
      return z.array(untrustedMark).parse(parseJson(readFileSync(this.#path, 'utf8')));
    } catch (error) {
      this.#powers.log.error(
        { error },
        'the marks of untrusted text can not be read: all sessions count as having seen it',
      );
      return [{ principal: ANY, workspace: ANY, at: new Date(this.#powers.now()).toISOString(), callId: '', tool: '' }];
    }
  }

  /** The marks hold until the daemon ends even if they can't be written; the next result of strangers tries again. */
  #keep(marks: readonly Mark[]): void {
    this.#marks = marks;
    try {
      replaceFile(this.#path, `${JSON.stringify(marks)}\n`);
      this.#isUnwritten = false;
    } catch (error) {
      this.#isUnwritten = true;
      this.#powers.log.error({ error }, 'it could not be stored who has seen untrusted text');
    }
  }
}

const isSame = (a: string, b: string): boolean => a === b || a === ANY || b === ANY;

const isOf = (mark: Mark, { principal, workspace }: Place): boolean =>
  isSame(mark.principal, principal) && isSame(mark.workspace, workspace);

/** The mark that all sessions of a principal share in a workspace. */
export interface SessionMark {
  has(): boolean;
  /** Notes a result that strangers wrote. */
  add(callId: string, tool: string): void;
  /** Notes that the session reads what another one of its principal has left, which may have read in another workspace. */
  carry(): void;
}
