// Writes sales/orders.csv, the data of the example.
import { mkdirSync, writeFileSync } from 'node:fs';

mkdirSync('sales', { recursive: true });
writeFileSync('sales/orders.csv', 'customer,cents\nAda,7000\nBob,1000\nCy,500\nBob,1500\n');
