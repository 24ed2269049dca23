/** Settings of the machine: commands see copies of those that hold no credential. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { settingsIn, writeSettings } from '../../../src/sandbox/etc/settings.ts';

let top: string;
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'ringfence-etc-'));
  mkdirSync(join(top, 'own'));
});
afterEach(() => rmSync(top, { recursive: true }));

const put = (name: string, text: string) => {
  mkdirSync(dirname(join(top, 'etc', name)), { recursive: true });
  writeFileSync(join(top, 'etc', name), text);
};
const shown = () => settingsIn(writeSettings(join(top, 'own'), 16_384, {}, join(top, 'etc')));
const XML = (inner: string) => `<?xml version="1.0" encoding="UTF-8"?>
<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://maven.apache.org/SETTINGS/1.0.0 https://maven.apache.org/xsd/settings-1.0.0.xsd">
${inner}
</settings>
`;

test.each([
  ['npmrc', 'cafile=/etc/ssl/certs/ca-certificates.crt\nregistry=https://npm.example.org/\n'],
  ['pip.conf', '[global]\ncert = /etc/ssl/certs/company.pem\nindex-url = https://pypi.example.org/simple\n'],
  ['gitconfig', '[safe]\n\tdirectory = *\n[http]\n\tsslCAInfo = /etc/ssl/certs/company.crt\n'],
  ['wgetrc', 'passive_ftp = on\nca_certificate = /etc/ssl/certs/company.crt\n'],
  ['maven/settings.xml', XML('<mirrors><mirror><id>a</id><url>https://maven.example.org/</url></mirror></mirrors>')],
])('%s without a credential is shown as it is', (name, text) => {
  put(name, text);
  expect(shown()).toEqual([name]);
  expect(readFileSync(join(top, 'own', name), 'utf8')).toBe(text);
});

test.each([
  ['npmrc', '//npm.example.org/:_authToken=abc\n'],
  ['npmrc', 'registry=https://u:p@npm.example.org/\n'],
  ['npmrc', 'cert="-----BEGIN CERTIFICATE-----"\n'],
  ['pip.conf', '[global]\nindex-url = https://pypi.example.org/q7Zt0PmB3kLx9VdR/simple\n'],
  ['gitconfig', '[http]\n\textraHeader = Authorization: Basic eA==\n'],
  ['wgetrc', 'password = x\n'],
  ['maven/settings.xml', XML('<servers><server><password>x</password></server></servers>')],
  ['maven/settings.xml', XML('<!-- <password>x</password> -->')],
])('%s with %j is hidden', (name, text) => {
  put(name, text);
  expect(shown()).toEqual([]);
});

test('a file that gets a credential is hidden from the next daemon on, and its text is never shown', () => {
  put('npmrc', 'fund=false\n');
  expect(shown()).toEqual(['npmrc']);
  put('npmrc', '_password=x\n');
  expect(readFileSync(join(top, 'own/npmrc'), 'utf8')).toBe('fund=false\n');
  expect(shown()).toEqual([]);
});

test('a link, a folder and what is too large are hidden', () => {
  put('elsewhere', 'fund=false\n');
  symlinkSync('elsewhere', join(top, 'etc/npmrc'));
  mkdirSync(join(top, 'etc/pip.conf'));
  put('wgetrc', '\n'.repeat(20_000));
  expect(shown()).toEqual([]);
});

test('a file that only root may read is shown in folders of root and in no folder of another user', () => {
  put('npmrc', 'fund=false\n');
  put('pip.conf', '[global]\nno-color = true\n');
  chmodSync(join(top, 'etc/npmrc'), 0o640);
  expect(shown()).toEqual(['npmrc', 'pip.conf']);
  expect(settingsIn(join(top, 'own'), { ofOthers: true })).toEqual(['pip.conf']);
});
