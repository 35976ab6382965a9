/** `npm run limits`: writes doc/reference/limits.md. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readBounds } from '../census/bounds.ts'
import { limitsPage } from './limits-page.ts'

const root = join(import.meta.dirname, '../..')
writeFileSync(join(root, 'doc/reference/limits.md'), limitsPage(readBounds(join(root, 'src'))))
