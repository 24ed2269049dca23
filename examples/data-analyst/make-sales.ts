// Writes sales.db, the database of the example.
import { DatabaseSync } from 'node:sqlite';

const database = new DatabaseSync('sales.db');
database.exec('create table orders (customer text not null, cents integer not null)');
const insert = database.prepare('insert into orders values (?, ?)');
for (const [customer, cents] of [
  ['Ada', 7_000],
  ['Bob', 1_000],
  ['Cy', 500],
  ['Bob', 1_500],
] as const)
  insert.run(customer, cents);
database.close();
