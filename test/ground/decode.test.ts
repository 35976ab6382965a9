import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const source = join(import.meta.dirname, '../../src')

/** functions that build a message from bytes; each keeps unknown fields by default */
const decodes = /\b(?:fromBinary|mergeFromBinary|sizeDelimitedDecodeStream|anyUnpack|anyUnpackTo)\b/

const itself = ['proto/decode.ts']

t.test('one function decodes messages, and keeps nothing that this version does not know', (t) => {
  const files = globSync('**/*.ts', { cwd: source }).filter((file) => !file.startsWith('proto/gen/'))
  const decoding = files.filter((file) => decodes.test(readFileSync(join(source, file), 'utf8')))
  t.strictSame(decoding, itself, 'all others call decodeMessage')
  t.match(readFileSync(join(source, 'proto/decode.ts'), 'utf8'), 'readUnknownFields: false')
  t.end()
})
