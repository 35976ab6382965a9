// After `npm pack` and `npm publish`.
import { join } from 'node:path'
import { clean } from './packed-files.mjs'

clean(join(import.meta.dirname, '..', '..'))
