/** A problem with the fleet that a person can do something about. */
import { OperatorError } from '../base/errors.ts';

export class FleetError extends OperatorError {}
