// `npm pack` and `npm publish`: src to JavaScript in dist, since Node strips no types below node_modules.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './run.mjs'

const root = join(import.meta.dirname, '..', '..')
rmSync(join(root, 'dist'), { recursive: true, force: true })
try {
  await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], root)
} catch (error) {
  process.stderr.write(`kas: build failed: ${error.message}\n`)
  process.exit(1)
}
