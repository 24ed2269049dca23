import { UsageError } from '../../base/errors.ts';

/** A plugin or connector that is not valid, or is no longer what was added. */
export class PinError extends UsageError {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}
