/** A socket can't be used; the message is for the person who started us. */
export class SocketError extends Error {}
