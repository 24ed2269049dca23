/** A socket can't be used; the message is for the person who started us. */
import { UsageError } from '../../base/errors.ts';

export class SocketError extends UsageError {}
