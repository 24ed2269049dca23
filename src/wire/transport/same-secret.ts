import { createHash, timingSafeEqual } from 'node:crypto';

/** Compares two credentials in a time that says nothing about where they differ. */
export function sameSecret(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
