import { expect, test } from 'vitest';
import { areInPlace, isBoundFrom } from '../../../src/sandbox/binds-in-place.ts';
import type { MountEntry } from '../../../src/sandbox/proc.ts';

const mount = (point: string, root: string, device = '0:9', [id, parent] = ['', '']): MountEntry => ({
  id,
  parent,
  point,
  root,
  device,
  type: 'ext4',
});
const workspace = [mount('/', '/', '0:5'), mount('/ws', '/home/person/ws')];
const isInPlace = (...more: MountEntry[]) => areInPlace(['/ws/conf'], [...workspace, ...more]);

test('a folder that shows itself is in place', () => {
  expect(isInPlace(mount('/ws/conf', '/home/person/ws/conf'))).toBe(true);
  const inner = [mount('/ws/conf', '/home/person/ws/conf'), mount('/ws/conf/in', '/home/person/ws/conf/in')];
  expect(areInPlace(['/ws/conf', '/ws/conf/in'], [...workspace, ...inner])).toBe(true);
});

test('a bind that shows another folder, another file system or nothing is not in place', () => {
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

test('a workspace is bound from where its path leads outside: by the mounts on the way, of which some cover others', () => {
  const outside = [
    mount('/', '/', '0:1', ['1', '0']),
    mount('/home', '/', '0:2', ['2', '1']),
    mount('/home/person/ws', '/old', '0:3', ['3', '2']),
    // Covers everything mounted below it before.
    mount('/home/person', '/users/person', '0:4', ['4', '2']),
    mount('/home/person', '/newest', '0:5', ['5', '4']),
    mount('/var', '/', '0:6', ['6', '1']),
  ];
  const isBound = (path: string, ...binds: MountEntry[]) => isBoundFrom(path, [mount('/', '/'), ...binds], outside);
  expect(isBound('/home/person/ws', mount('/home/person/ws', '/newest/ws', '0:5'))).toBe(true);
  expect(isBound('/home/person/ws', mount('/home/person/ws', '/users/person/ws', '0:4'))).toBe(false);
  expect(isBound('/home/person/ws', mount('/home/person/ws', '/', '0:6'))).toBe(false);
  expect(isBound('/home/person/ws')).toBe(false);
  expect(isBound('/srv/ws', mount('/srv/ws', '/srv/ws', '0:1'))).toBe(true);
  expect(isBound('/home/ws', mount('/home/ws', '/ws', '0:2'), mount('/home/ws', '/', '0:8'))).toBe(true);
});
