/** A package can't be found, trusted or installed; the message is for a person. */
import { OperatorError } from '../../base/errors.ts';

export class MarketError extends OperatorError {}
