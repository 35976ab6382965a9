// Before `npm pack` and `npm publish`.
import { join } from 'node:path'
import { make } from './packed-files.mjs'

try {
  await make(join(import.meta.dirname, '..', '..'))
} catch (error) {
  process.stderr.write(`kas: build failed: ${error.message}\n`)
  process.exit(1)
}
