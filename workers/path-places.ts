/** Where it stands that a command is gone: more places than commands run at once. */
export const PLACES = 1024;

export const placeOf = (token: number): number => token % PLACES;
