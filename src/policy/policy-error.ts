/** A policy that is not taken; each problem begins with `file:line:col: `, or with the file where it could not be read. */
export class PolicyError extends Error {
  readonly problems: readonly string[];
  /** Absolute paths of what was read on the way, parents included: a change of any may mend it. */
  readonly files: readonly string[];

  constructor(problems: readonly string[], files: readonly string[] = []) {
    super(problems.join('\n'));
    this.name = 'PolicyError';
    this.problems = problems;
    this.files = files;
  }
}
