import { expect, test } from 'vitest';
import { areInPlace } from '../../../src/sandbox/binds-in-place.ts';
import type { Mounted } from '../../../src/sandbox/proc.ts';

const mount = (point: string, root: string, device = '0:9'): Mounted => ({ point, root, device });
const workspace = [mount('/', '/', '0:5'), mount('/ws', '/home/person/ws')];
const isInPlace = (...more: Mounted[]) => areInPlace(['/ws/conf'], [...workspace, ...more]);

test('a folder that shows itself is in place', () => {
  expect(isInPlace(mount('/ws/conf', '/home/person/ws/conf'))).toBe(true);
  const inner = [mount('/ws/conf', '/home/person/ws/conf'), mount('/ws/conf/in', '/home/person/ws/conf/in')];
  expect(areInPlace(['/ws/conf', '/ws/conf/in'], [...workspace, ...inner])).toBe(true);
});

test('one that shows another place, another file system or nothing is not', () => {
  expect(isInPlace(mount('/ws/conf', '/home/person/ws/vault'))).toBe(false);
  expect(isInPlace(mount('/ws/conf', '/home/person/ws'))).toBe(false);
  expect(isInPlace(mount('/ws/conf', '/home/person/ws/conf', '0:7'))).toBe(false);
  expect(isInPlace(mount('/ws/conf', '/home/person/ws/conf//deleted'))).toBe(false);
  expect(isInPlace()).toBe(false);
  expect(isInPlace(mount('/usr', '/home/person/ws/conf'))).toBe(false);
});

test('a file system that was mounted in the workspace before is in place, and covered by another one it is not', () => {
  expect(isInPlace(mount('/ws/conf', '/', '0:7'), mount('/ws/conf', '/', '0:7'))).toBe(true);
  expect(isInPlace(mount('/ws/conf', '/', '0:7'), mount('/ws/conf', '/home/person/ws/vault'))).toBe(false);
});

test('entries of a workspace that is covered by an empty folder are compared with the workspace below', () => {
  const covered = [...workspace, mount('/ws', '/', '0:8')];
  expect(areInPlace(['/ws/src'], [...covered, mount('/ws/src', '/home/person/ws/src')])).toBe(true);
  expect(areInPlace(['/ws/src'], [...covered, mount('/ws/src', '/')])).toBe(false);
});
