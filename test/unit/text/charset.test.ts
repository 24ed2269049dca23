/** Character sets of answers, with the bytes that servers send. */
import { describe, expect, test } from 'vitest';
import { decodeText, isText } from '../../../src/base/text/charset.ts';

const bytesOf = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex');
const JAPANESE = bytesOf('93fa 967b 8cea');

describe('the character set', () => {
  test.each([
    ['shift_jis', '93fa967b8cea', '日本語'],
    ['gb18030', 'd6d0cec4 8130 8a30', '中文'],
    ['euc-kr', 'c7d1b1b9', '한국'],
    ['koi8-r', 'f2d5d3d3cbc9ca', 'Русский'],
    ['windows-1252', '93 80 94', '“€”'],
    ['iso-8859-1', '80', '€'],
    ['big5', 'a4a4', '中'],
  ])('%s of the content type decodes its bytes', (charset, hex, text) => {
    const decoded = decodeText(bytesOf(hex), { contentType: `text/plain; charset=${charset}` });
    expect(decoded.text.slice(0, text.length)).toBe(text);
  });

  test('the character set of a byte order mark goes before that of the content type', () => {
    const utf8 = { contentType: 'text/plain; charset=koi8-r' };
    expect(decodeText(bytesOf('efbbbf c3a9'), utf8)).toEqual({ text: 'é', charset: 'utf-8' });
    expect(decodeText(bytesOf('fffe e900'), utf8)).toEqual({ text: 'é', charset: 'utf-16le' });
    expect(decodeText(bytesOf('feff 00e9'), utf8)).toEqual({ text: 'é', charset: 'utf-16be' });
  });

  test('the character set of the content type goes before that of the page', () => {
    const page = Buffer.concat([Buffer.from('<meta charset=utf-8>'), JAPANESE]);
    expect(decodeText(page, { contentType: 'text/html; charset="Shift_JIS"' }).text).toContain('日本語');
  });

  test.each([
    '<meta charset=shift_jis>',
    "<!doctype html><META CharSet='Shift_JIS' />",
    '<meta http-equiv="Content-Type" content="text/html; charset=x-sjis">',
    '<?xml version="1.0" encoding="shift_jis"?>',
    '<!-- <meta charset=utf-8> --><meta charset=shift_jis>',
  ])('the character set of the page is taken from %s', (head) => {
    const page = Buffer.concat([Buffer.from(head), JAPANESE]);
    expect(decodeText(page, { contentType: 'text/html' })).toMatchObject({ charset: 'shift_jis' });
    expect(decodeText(page, { contentType: 'text/html' }).text).toContain('日本語');
  });

  test('the character set is not taken from a meta behind the first 1 024 bytes, or of a text other than a page', () => {
    const late = Buffer.concat([Buffer.alloc(1024, ' '), Buffer.from('<meta charset=koi8-r>é')]);
    expect(decodeText(late, { contentType: 'text/html' }).charset).toBe('utf-8');
    expect(decodeText(Buffer.from('<meta charset=koi8-r>é'), { contentType: 'text/plain' }).charset).toBe('utf-8');
  });

  test('a text without a known character set is UTF-8 if its bytes are, else windows-1252', () => {
    expect(decodeText(Buffer.from('é'))).toEqual({ text: 'é', charset: 'utf-8' });
    expect(decodeText(bytesOf('e9 80'))).toEqual({ text: 'é€', charset: 'windows-1252' });
    expect(decodeText(bytesOf('e9'), { contentType: 'text/plain; charset=klingon' }).text).toBe('é');
    expect(decodeText(Buffer.from('<meta charset=utf-16le>é'), { contentType: 'text/html' }).charset).toBe('utf-8');
  });
});

describe('a cut text', () => {
  test.each([1, 2, 3])(
    'a text that is cut in the middle of a character of UTF-8 loses that character only (%i bytes)',
    (kept) => {
      const bytes = Buffer.concat([Buffer.from('a€'), Buffer.from('😀').subarray(0, kept)]);
      expect(isText(bytes, { isCut: true })).toBe(true);
      expect(decodeText(bytes, { isCut: true })).toEqual({ text: 'a€', charset: 'utf-8' });
    },
  );
  test('a text that is cut in the middle of a character of another set loses that character only', () => {
    const cut = { contentType: 'text/plain; charset=shift_jis', isCut: true };
    expect(decodeText(JAPANESE.subarray(0, 5), cut).text).toBe('日本');
  });
});

describe('bytes', () => {
  test('bytes are text by their type, their character set, their mark, or because they are UTF-8', () => {
    expect(isText(bytesOf('93fa'), { contentType: 'text/html' })).toBe(true);
    expect(isText(bytesOf('93fa'), { contentType: 'application/problem+json' })).toBe(true);
    expect(isText(bytesOf('93fa'), { contentType: 'application/x; charset=shift_jis' })).toBe(true);
    expect(isText(bytesOf('fffe e900'))).toBe(true);
    expect(isText(Buffer.from('é'), { contentType: 'application/octet-stream' })).toBe(true);
  });
  test('bytes without any of these are no text', () => {
    expect(isText(bytesOf('89504e47 0d0a1a0a'), { contentType: 'image/png' })).toBe(false);
    expect(isText(bytesOf('ff00'))).toBe(false);
  });
});
