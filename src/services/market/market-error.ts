/** A package can't be found, trusted or installed; the message is for a person. */
export class MarketError extends Error {}
