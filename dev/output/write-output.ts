/** `npm run output`: writes doc/reference/output.md, and the schema beside it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { outputPage } from './output-page.ts'
import { outputSchema } from './output-schema.ts'

const root = join(import.meta.dirname, '../..')
const schema = outputSchema(root)
writeFileSync(join(root, 'doc/reference/output.schema.json'), `${JSON.stringify(schema, undefined, 2)}\n`)
writeFileSync(join(root, 'doc/reference/output.md'), outputPage(schema))
