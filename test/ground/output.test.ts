import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { outputPage } from '../../dev/output/output-page.ts'
import { outputSchema } from '../../dev/output/output-schema.ts'

/** The pages of doc/reference about `-o json` agree with the types of the commands. */

const root = join(import.meta.dirname, '../..')
const read = (name: string) => readFileSync(join(root, 'doc/reference', name), 'utf8')
const schema = outputSchema(root)

t.test('the page is current (npm run output)', async (t) => {
  t.equal(read('output.md'), outputPage(schema))
})

t.test('the schema is current (npm run output)', async (t) => {
  t.strictSame(JSON.parse(read('output.schema.json')), schema)
})
