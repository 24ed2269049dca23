import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toCsv, toLines } from '../../../../src/cli/databases/table.ts';

const columns = [
  { name: 'id', type: 'integer' },
  { name: 'name', type: 'text' },
] as const;

describe('a table', () => {
  test('a table has numbers on the right, and NULL by its name', () => {
    const rows = [
      [1, 'a'],
      [1000, null],
    ];
    expect(toLines({ columns, rows })).toEqual(['  id  name', '----  ----', '   1  a', '1000  NULL']);
  });

  test('a table has one line a row, whatever it holds, and cuts long cells', () => {
    const rows = [
      [1, 'a\nb\u001b[31m\u202e'],
      [2, 'x'.repeat(100)],
      [3, '\u{1f600}'.repeat(50)],
    ];
    const lines = toLines({ columns, rows });
    expect(lines).toHaveLength(5);
    expect(['\u001b', '\u202e'].filter((it) => lines.join('').includes(it))).toEqual([]);
    expect(lines.every((it) => it.isWellFormed())).toBe(true);
    expect(lines[3]).toBe(` 2  ${'x'.repeat(59)}…`);
  });

  test('shows the value of a cell that says its type', () => {
    const mixed = [{ name: 'it', type: 'mixed' }] as const;
    expect(toLines({ columns: mixed, rows: [[{ type: 'blob', value: 'AA==' }]] })[2]).toBe('AA==');
  });
});

describe('CSV', () => {
  test('tells NULL from an empty text', () => {
    expect(
      toCsv({
        columns,
        rows: [
          [1, null],
          [2, ''],
        ],
      }),
    ).toBe('id,name\r\n1,\r\n2,""\r\n');
  });

  test('gives back every text', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string(), fc.string()), { maxLength: 5 }), (texts) => {
        const csv = toCsv({ columns, rows: texts });
        expect(readCsv(csv).slice(1)).toEqual(texts);
      }),
    );
  });
});

/** Reads RFC 4180. */
function readCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/gy;
  for (let match = field.exec(text); match; match = field.exec(text)) {
    row.push(match[1] === undefined ? (match[2] as string) : match[1].replaceAll('""', '"'));
    if (match[3] === ',') continue;
    rows.push(row);
    row = [];
    if (field.lastIndex === text.length) break;
  }
  return rows;
}
