/** The sources of a setting. */

/** The sources of a setting, the one with the highest precedence first. */
export type Origin = 'flag' | 'environment' | 'file' | 'default';

/** The first given value, and its source. */
export function chosen<T>(given: { flag?: T | undefined; environment?: T | undefined; file?: T | undefined }): {
  value: T | undefined;
  from: Origin;
} {
  const { flag, environment, file } = given;
  if (flag !== undefined) return { value: flag, from: 'flag' };
  if (environment !== undefined) return { value: environment, from: 'environment' };
  return { value: file, from: file === undefined ? 'default' : 'file' };
}
