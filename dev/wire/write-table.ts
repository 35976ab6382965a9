/** `npm run wire`: writes doc/reference/wire.md. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { wireTable } from './table.ts'

const root = join(import.meta.dirname, '../..')
writeFileSync(join(root, 'doc/reference/wire.md'), wireTable(root))
