/** A problem with the fleet that a person can do something about. */
export class FleetError extends Error {}
