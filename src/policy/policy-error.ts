/** A policy was refused. Each problem begins with `file:line:col: `, or with the file if it could not be read. */
import { UsageError } from '../base/errors.ts';

export class PolicyError extends UsageError {
  readonly problems: readonly string[];
  /** Absolute paths of all files that were read, parents included; changing any of them may solve the problem. */
  readonly files: readonly string[];

  constructor(problems: readonly string[], files: readonly string[] = []) {
    super(problems.join('\n'));
    this.name = 'PolicyError';
    this.problems = problems;
    this.files = files;
  }
}
